const RANGE = "quantscope:range";
const OCTAVES = 5;
const MILLISECONDS = 60;
const MOST_BARS = 1024;

function render({ model, el }) {
  let spec = {};
  let channel = 0;
  let dirty = null;
  let dragging = null;
  let steps = [];
  let timer = 0;
  let sentAt = 0;
  let n = Math.max(model.get("spec")?.seen ?? 0, model.get("edit")?.steps?.at(-1)?.n ?? 0);
  const channels = new Map();

  const text = (value) => Number.isFinite(value) ? String(Number(value.toPrecision(5))) : "";
  const times = (now, base) => `× ${(now / base).toPrecision(3)}`;
  const tidy = (value) => Number(value.toPrecision(5));

  // What Python has not seen yet is sent again with the next gesture: merged updates lose nothing.
  function tell(step, atOnce) {
    n += 1;
    const made = { tensor: spec.tensor, ...step, n };
    const last = steps.at(-1);
    const again = last && ["tensor", "what", "channel"].every((key) => last[key] === made[key]);
    if (again) steps[steps.length - 1] = made; else steps.push(made);
    const waited = Date.now() - sentAt;
    if (atOnce || waited >= MILLISECONDS) flush();
    else if (!timer) timer = setTimeout(flush, MILLISECONDS - waited);
  }

  function flush() {
    clearTimeout(timer);
    timer = 0;
    if (!steps.length) return;
    sentAt = Date.now();
    model.set("edit", { steps: [...steps] });
    model.save_changes();
  }

  function commit() {
    if (!dirty) return;
    const { send } = dirty;
    dirty = null;
    send();
  }

  function number(what, label, send) {
    const field = element("input", { type: "text", inputmode: "decimal", spellcheck: "false", autocomplete: "off",
      "aria-label": label, "data-testid": `field-${what}` });
    field.addEventListener("input", () => { dirty = { field, send: () => send(field.value.trim()) }; });
    field.addEventListener("change", commit);
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") commit();
      if (event.key === "Escape") { dirty = null; show(true); field.select(); }
    });
    return field;
  }

  function control(what, label, word, { range, fromSlider, send, reset }) {
    const slider = element("input", { type: "range", ...range, "aria-label": label, "data-testid": `slider-${what}` });
    const field = number(what, label, (value) => send(value, true));
    const hint = element("span", { class: "hint", "data-testid": `hint-${what}` });
    const back = element("button", { type: "button", class: "back", text: "↺", title: `${label} as the model has it`,
      "aria-label": `${label} as the model has it`, "data-testid": `reset-${what}`, onclick: reset });
    const name = element("span", { class: "name", text: label, "data-word": word, tabindex: 0 });
    slider.addEventListener("pointerdown", () => { dragging = slider; });
    slider.addEventListener("input", () => {
      const value = fromSlider(Number(slider.value));
      field.value = text(value);
      send(value, false);
    });
    slider.addEventListener("change", () => { dragging = null; flush(); show(true); });
    const row = element("div", { class: "row" }, name, slider, field, hint, back);
    return { row, slider, field, hint, back, name };
  }

  const octaves = { min: -OCTAVES, max: OCTAVES, step: 1 / 32 };
  const along = (base) => (o) => o === 0 ? base : tidy(base * 2 ** o);
  const place = (value, base) => String(Math.max(-OCTAVES, Math.min(OCTAVES, Math.log2(value / base))));

  const scale = control("scale", "scale", "scale", {
    range: octaves,
    fromSlider: (o) => along(spec.base_scale)(o),
    send: (value, atOnce) => { guess({ scale: Number(value) }); tell({ what: "scale", value }, atOnce); },
    reset: () => { guess({ scale: spec.base_scale }); tell({ what: "scale", value: spec.base_scale }, true); },
  });
  const factor = control("factor", "all scales ×", "per_channel", {
    range: octaves,
    fromSlider: (o) => along(1)(o),
    send: (value, atOnce) => { guess({ factor: Number(value) }); tell({ what: "factor", value }, atOnce); },
    reset: () => { guess({ factor: 1 }); tell({ what: "factor", value: 1 }, true); },
  });
  const one = control("channel-scale", "its scale", "scale", {
    range: octaves,
    fromSlider: (o) => along(spec.base_scales[channel])(o),
    send: (value, atOnce) => { guess({ one: Number(value) }); tell({ what: "channel", channel, value }, atOnce); },
    reset: () => {
      const value = spec.base_scales[channel] * spec.factor;
      guess({ one: value });
      tell({ what: "channel", channel, value }, true);
    },
  });
  const zero = control("zero-point", "zero-point", "zero_point", {
    range: { min: -128, max: 127, step: 1 },
    fromSlider: (value) => value,
    send: (value, atOnce) => { guess({ zero_point: Number(value) }); tell({ what: "zero_point", value }, atOnce); },
    reset: () => {
      guess({ zero_point: spec.base_zero_point });
      tell({ what: "zero_point", value: spec.base_zero_point }, true);
    },
  });
  const bits = control("bits", "bits", "bits", {
    range: { min: 0, max: 7, step: 1 },
    fromSlider: (at) => spec.widths[at],
    send: (value, atOnce) => { guess({ bits: Number(value) }); tell({ what: "bits", value }, atOnce); },
    reset: () => { guess({ bits: spec.base_bits }); tell({ what: "bits", value: spec.base_bits }, true); },
  });
  const sendRange = () => tell({ what: "range", lo: low.value.trim(), hi: high.value.trim() }, true);
  const low = number("lo", "low end of the range", sendRange);
  const high = number("hi", "high end of the range", sendRange);
  const ends = element("div", { class: "row ends" },
    element("span", { class: "name", text: "range", "data-word": "range", tabindex: 0 }), low,
    element("span", { class: "to", text: "to" }), high);
  const reset = element("button", { type: "button", class: "reset", text: "reset", title: "bits, scale, zero-point and range as the model has them",
    "data-testid": "reset-tensor", onclick: () => { dirty = null; tell({ what: "reset" }, true); } });

  const pick = element("input", { type: "number", min: 0, step: 1, "aria-label": "channel", "data-testid": "field-channel" });
  const bars = element("svg", { class: "bars", preserveAspectRatio: "none", "aria-hidden": "true" });
  const of = element("span", { class: "hint" });
  const picker = element("div", { class: "row picker" },
    element("span", { class: "name", text: "channel", "data-word": "per_channel", tabindex: 0 }), pick, of, bars);
  pick.addEventListener("input", () => {
    const wanted = Number(pick.value);
    if (pick.value !== "" && Number.isInteger(wanted) && wanted >= 0 && wanted < spec.channels) choose(wanted);
  });
  pick.addEventListener("change", () => { pick.value = String(channel); });
  bars.addEventListener("click", (event) => {
    const box = bars.getBoundingClientRect();
    choose(Math.max(0, Math.min(spec.channels - 1, Math.floor((event.clientX - box.left) / box.width * spec.channels))));
  });

  const refusal = element("p", { class: "refusal", role: "alert", "data-testid": "refusal" });
  const locked = element("p", { class: "locked", "data-testid": "locked" });
  const remarks = element("ul", { class: "remarks", "data-testid": "remarks" });
  const body = element("div", { class: "body" },
    scale.row, factor.row, picker, one.row, zero.row, bits.row, element("div", { class: "foot" }, ends, reset));
  const root = element("div", { class: "qs-qparam", "data-testid": "qparam" },
    body, refusal, locked, remarks);
  el.append(root);

  function choose(wanted) {
    commit();
    channel = wanted;
    channels.set(spec.tensor, channel);
    show(true);
  }

  // What is being moved is shown at once, here and in the histogram; Python's answer is what counts.
  function guess(moved) {
    Object.assign(spec, moved);
    if (moved.one !== undefined) { spec.scales = [...spec.scales]; spec.scales[channel] = moved.one; }
    if (moved.factor !== undefined && spec.channels) spec.scales = spec.own_scales.map((s) => s * moved.factor);
    if (!spec.channels && Number.isFinite(spec.scale) && Number.isFinite(spec.zero_point)) {
      spec.lo = (spec.qmin - spec.zero_point) * spec.scale;
      spec.hi = (spec.qmax - spec.zero_point) * spec.scale;
      window.dispatchEvent(new CustomEvent(RANGE, { detail: { tensor: spec.tensor, lo: spec.lo, hi: spec.hi, from: "qparam" } }));
    }
    show(false);
  }

  function put(input, value) {
    if (dirty?.field === input || dragging === input) return;
    if (input.value !== value) input.value = value;
  }

  function changed(part, is) {
    part.row.classList.toggle("changed", is);
    part.back.style.visibility = is ? "visible" : "hidden";
  }

  function show(whole) {
    const has = Boolean(spec.tensor) && spec.dtype !== undefined;
    const single = has && !spec.channels;
    body.hidden = !has;
    scale.row.hidden = !single;
    factor.row.hidden = single || !has;
    picker.hidden = one.row.hidden = single || !spec.picks;
    zero.row.hidden = !spec.zero_point_is_free;
    ends.hidden = !single;
    if (single) {
      put(scale.slider, place(spec.scale, spec.base_scale));
      put(scale.field, text(spec.scale));
      scale.hint.textContent = times(spec.scale, spec.base_scale);
      changed(scale, Math.fround(spec.scale) !== Math.fround(spec.base_scale));
      put(low, text(spec.lo));
      put(high, text(spec.hi));
    } else if (has) {
      put(factor.slider, place(spec.factor, 1));
      put(factor.field, text(spec.factor));
      factor.hint.textContent = "";
      changed(factor, spec.factor !== 1);
      put(one.slider, place(spec.scales[channel], spec.base_scales[channel]));
      put(one.field, text(spec.scales[channel]));
      one.hint.textContent = times(spec.scales[channel], spec.base_scales[channel]);
      changed(one, Math.abs(spec.scales[channel] / (spec.base_scales[channel] * spec.factor) - 1) > 1e-6);
      if (document.activeElement !== pick && root.getRootNode().activeElement !== pick) pick.value = String(channel);
      pick.max = String(spec.channels - 1);
      of.textContent = `of ${spec.channels}`;
      drawBars();
    }
    if (has && spec.zero_point_is_free) {
      zero.slider.min = String(spec.qmin);
      zero.slider.max = String(spec.qmax);
      put(zero.slider, String(spec.zero_point));
      put(zero.field, String(spec.zero_point));
      zero.hint.textContent = spec.zero_point === spec.base_zero_point ? `${spec.qmin} … ${spec.qmax}` : `was ${spec.base_zero_point}`;
      changed(zero, spec.zero_point !== spec.base_zero_point);
    }
    bits.row.hidden = !spec.widths?.length;
    if (has && spec.widths?.length) {
      bits.slider.max = String(spec.widths.length - 1);
      put(bits.slider, String(spec.widths.findLastIndex((width) => width <= spec.bits)));
      put(bits.field, String(spec.bits));
      bits.slider.setAttribute("aria-valuetext", `${spec.bits} bits`);
      bits.hint.textContent = spec.bits === spec.base_bits ? "" : `was ${spec.base_bits}`;
      changed(bits, spec.bits !== spec.base_bits);
    }
    if (!whole) return;
    for (const input of root.querySelectorAll("input")) input.disabled = Boolean(spec.locked) && input !== pick;
    refusal.textContent = spec.refusal ?? "";
    refusal.hidden = !spec.refusal;
    locked.textContent = spec.locked ?? "";
    locked.hidden = !spec.locked;
    reset.hidden = !spec.changed;
    remarks.replaceChildren(...(spec.remarks ?? []).map((remark) =>
      element("li", { class: remark.kind, text: remark.text })));
    remarks.hidden = !(spec.remarks ?? []).length;
    root.dataset.tensor = spec.tensor ?? "";
    root.dataset.seen = String(spec.seen ?? 0);
  }

  function drawBars() {
    bars.style.display = spec.channels > MOST_BARS ? "none" : "";
    if (spec.channels > MOST_BARS) return;
    const sizes = [...spec.scales, ...spec.base_scales].filter((s) => s > 0).map(Math.log);
    const least = Math.min(...sizes), span = Math.max(...sizes) - least || 1;
    bars.setAttribute("viewBox", `0 0 ${spec.channels} 30`);
    bars.replaceChildren(...spec.scales.map((s, at) => {
      const high = 4 + 26 * (Math.log(s) - least) / span || 4;
      const moved = Math.abs(s / (spec.base_scales[at]) - 1) > 1e-6;
      return element("rect", { x: at + 0.08, width: 0.84, y: 30 - high, height: high,
        class: at === channel ? "chosen" : moved ? "moved" : "" });
    }));
  }

  function arrived() {
    const sent = model.get("spec");
    if (sent.tensor !== spec.tensor) {
      commit();  // under the tensor that it was typed for
      dragging = null;
      channel = channels.get(sent.tensor) ?? 0;
    }
    steps = steps.filter((step) => step.n > (sent.seen ?? 0));
    const mine = steps.some((step) => step.tensor === sent.tensor);
    if (mine && sent.tensor === spec.tensor) return;  // a newer one is on its way
    spec = { ...sent };
    if (spec.channels) spec.own_scales = spec.scales.map((s) => s / spec.factor);
    if (channel >= (spec.channels || 1)) channel = 0;
    show(true);
  }

  const ranged = (event) => {
    const { tensor, lo, hi, from } = event.detail;
    if (from === "qparam" || tensor !== spec.tensor || spec.channels) return;
    put(low, text(lo));
    put(high, text(hi));
  };
  window.addEventListener(RANGE, ranged);
  model.on("change:spec", arrived);
  arrived();
  return () => {
    commit();
    flush();
    window.removeEventListener(RANGE, ranged);
    model.off("change:spec", arrived);
  };
}

export default { render };
