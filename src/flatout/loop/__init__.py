"""The library for hand-written training loops: `flatout.Loop`.

What flows: the loader announces each batch in the `Cursor` -> `Loop.step` opens or continues a `Window` ->
`Loop.backward` weighs the loss by its share of the window -> the window's end exchanges gradients, clips, steps.
"""

from flatout.loop.loop import Loop

__all__ = ["Loop"]
