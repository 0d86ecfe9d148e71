"""Say what is wrong with a model, what it costs and what was tried, as text."""

from collections.abc import Iterator

from quantscope.diagnose import Account, Attempt, Diagnosis, Finding, Gain
from quantscope.plain_text import many, printable
from quantscope.report.table import Column, Line, Table
from quantscope.report.wording import format_rounded, number, score_text
from quantscope.run import MEASURES

_MOST_PLACES = 6


def diagnosis_view(result: Diagnosis) -> Iterator[str | Line | Table]:
    """Write the account, the layers that hold most of the loss, the findings and their tries."""
    account = result.account
    yield (
        f"{printable(result.model)} against {printable(result.float_model)}, "
        f"{result.execution} execution, {many(result.images, result.sample_word)} of {result.data}"
    )
    if result.calibration is not None:
        yield f"calibrated with {result.calibration}"
    yield account_table(account)
    if account.layers:
        yield ""
        yield layers_intro(account)
        yield layer_table(account)
    yield ""
    yield Line(findings_title(result), "strong")
    for place, finding in enumerate(result.findings, start=1):
        yield ""
        yield from _finding(place, finding, result)
    if result.together is not None:
        yield ""
        yield f"All that helped, together: {attempt_text(result.together)}"
    yield from (printable(note) for note in result.notes)


def findings_title(result: Diagnosis) -> str:
    """Say how many findings there are, and in which order they come."""
    if not result.findings:
        return "Nothing was found that quantscope knows as a defect."
    found = many(len(result.findings), "finding")
    return f"{found}, what costs most first" if len(result.findings) > 1 else found


def account_table(account: Account) -> Table:
    """Write the scores, and what comes back with parts of the network float."""
    score = account.quantized
    unit = "points" if score.unit == "share" else score.unit
    title = f"the account: {_short(account)}, and how much more each line has"
    rows = [
        ("float model", _only_score(account.floats), gain_text(account.loss)),
        ("quantized, as the file states it", score_text(score), ""),
        ("  with all weights float", "", gain_text(account.weights_off)),
        ("  with all activations float", "", gain_text(account.activations_off)),
        ("  with both float", "", gain_text(account.both_off)),
    ]
    if account.runtime is not None and account.kernels is not None:
        where = f"kernels of {account.kernels_of}"
        rows.append((where, score_text(account.runtime), gain_text(account.kernels)))
    more = f"more than quantized ({unit})" if unit else "more than quantized"
    columns = (Column("", kind="text"), Column("score"), Column(more))
    return Table(title, columns, tuple(rows))


def layers_intro(account: Account) -> str:
    """Say what the table of layers shows, and how its layers were chosen."""
    chosen = ""
    if len(account.layers) < account.layers_in_all:
        chosen = (
            f" {len(account.layers)} of {account.layers_in_all} layers and inputs were measured: "
            f"those that add most error of their own."
        )
    return (
        f'Below: what comes back with one layer float, the most first.{chosen} "SQNR gain" is '
        "of the model's outputs, all samples pooled, \"own SQNR\" a layer's signal over the error "
        "that it adds itself."
    )


def layer_table(account: Account) -> Table:
    """Write the layers that hold most of the loss."""
    unit = account.quantized.unit
    unit = "points" if unit == "share" else unit
    return Table(
        "where it sits",
        (
            Column("layer", kind="name"),
            Column("operator", spare=1),
            Column(f"comes back ({unit})" if unit else "comes back"),
            Column("SQNR gain (dB)", right=True),
            Column("own SQNR (dB)", right=True),
        ),
        tuple(
            (
                printable(share.layer),
                share.op_type,
                return_text(share.gain),
                "–"
                if share.gain.sqnr_change_db is None
                else format_rounded(share.gain.sqnr_change_db, "+.2f"),
                "–" if share.own_sqnr_db is None else f"{share.own_sqnr_db:.1f}",
            )
            for share in account.layers
        ),
    )


def gain_text(gain: Gain) -> str:
    """Write by how much a change moves the score, with its interval: `+1.20 [+0.60, +1.80]`."""
    return _signed(gain, 1)


def return_text(gain: Gain) -> str:
    """Write how much of a loss a change brings back: more is better, whatever the score is."""
    return _signed(gain, 1 if gain.delta.first.higher_is_better else -1)


def _signed(gain: Gain, sign: int) -> str:
    delta = gain.delta
    if not delta.samples:
        return "–"
    share = delta.first.unit == "share"
    scale, form = (100.0, "+.2f") if share or delta.first.unit == "dB" else (1.0, "+.3g")
    scale = sign * (100.0 if share else 1.0)
    text = format_rounded(scale * delta.delta, form)
    ends = delta.interval_95
    if ends is not None:
        low, high = sorted(scale * end for end in ends)
        text += f" [{format_rounded(low, form)}, {format_rounded(high, form)}]"
    return text


def cost_text(finding: Finding, unit: str) -> str:
    """Say what a finding costs, and of what that is the measure."""
    if finding.cost_of == "nothing":
        return "costs no accuracy"
    if finding.cost is None:
        return "its cost was not measured"
    what = {
        "tensors": "with these tensors float",
        "kernels": "in the arithmetic that the file states",
        "class": "with this class answered as by the float model",
        "nothing": "",
    }[finding.cost_of]
    word = "points" if unit == "share" else unit
    sure = "" if finding.cost.is_sure else ", which may be chance"
    return f"{return_text(finding.cost)} {word} come back {what}{sure}"


def attempt_text(attempt: Attempt) -> str:
    """Say what a try brought, or that it does not help, or why it was not tried."""
    if attempt.gain is None or attempt.score is None:
        return f"not tried: {printable(attempt.not_tried)}"
    unit = "points" if attempt.score.unit == "share" else attempt.score.unit
    text = f"{gain_text(attempt.gain)} {unit}".rstrip()
    if attempt.helps:
        if attempt.recovered is not None:
            text += f", {attempt.recovered:.0%} of the loss"
        return text
    if attempt.gain.is_sure:
        return f"{text}: it does harm"
    return f"{text}: it does not help, as far as these samples can tell"


def tried_text(attempt: Attempt) -> str:
    """Say what a try brought, and that it was run by kernels where it was."""
    text = attempt_text(attempt)
    return f"{text}, in the kernels" if attempt.gain and attempt.execution == "runtime" else text


def _finding(place: int, finding: Finding, result: Diagnosis) -> Iterator[str | Line]:
    yield Line(f"{place}. {finding.title}", "strong")
    yield f"   {cost_text(finding, result.account.quantized.unit)}"
    for each in finding.places[:_MOST_PLACES]:
        yield f"   {printable(each.where)}: {printable(each.seen)}"
    if len(finding.places) > _MOST_PLACES:
        yield f"   and {len(finding.places) - _MOST_PLACES} more (--json has all)"
    yield f"   {finding.why} ({finding.link})"
    tried = {attempt.remedy.what: attempt for attempt in finding.attempts}
    for remedy in finding.remedies:
        attempt = tried.get(remedy.what)
        said = "" if attempt is None else f": {tried_text(attempt)}"
        how = f" ({remedy.command})" if remedy.command and attempt is None else ""
        yield f"   → {remedy.what}{how}{said}"


def _short(account: Account) -> str:
    name = account.quantized.measure
    return "accuracy" if name == MEASURES["top1"].name else name


def _only_score(score: object) -> str:
    from quantscope.run import Score

    assert isinstance(score, Score)
    if score.value != score.value:
        return "–"
    return score_text(score) if score.unit in ("share", "dB") else number(score.value)
