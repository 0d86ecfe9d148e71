"""Choose the layer that a page opens with: the one that costs most."""

from quantscope.app.place import Selection, select_layer, select_tensor
from quantscope.app.session import Session
from quantscope.diagnose import own_noise


def worst_selection(session: Session) -> Selection | None:
    """Select the layer that holds most of the loss; None while it is not known.

    A model that cannot be diagnosed has the one that adds most error of its own.
    """
    diagnosis = session.diagnosis
    if diagnosis is not None and diagnosis.account.layers:
        return select_place(session, diagnosis.account.layers[0].layer)
    comparison = session.comparison
    if comparison is None or (session.can_be_diagnosed and not session.why_not_diagnosed):
        return None
    noise = own_noise(comparison)
    return select_place(session, max(noise, key=noise.__getitem__)) if noise else None


def select_place(session: Session, name: str) -> Selection | None:
    """Select a layer or a tensor by its name; None where the network has no such."""
    network = session.opened.network
    layer = next((layer for layer in network.layers if layer.name == name), None)
    if layer is not None:
        return select_layer(layer)
    tensor = next((tensor for tensor in network.tensors if tensor.name == name), None)
    return select_tensor(tensor) if tensor is not None else None
