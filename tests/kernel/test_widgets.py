"""Widgets as text for the model, and payloads of replies."""

from __future__ import annotations

from shown import Shown

from jupyter_agent.kernel.kernels import Kernels
from jupyter_agent.text.outputs import output_text


async def told(kernels: Kernels, code: str) -> tuple[str, Shown]:
    """The final text of the displays of the code, and its sink."""
    kernel = await kernels.get("a.ipynb")
    shown = Shown()
    assert (await kernel.execute(f"import ipywidgets as w\n{code}", shown)).status == "ok"
    outputs = [event[1] for event in shown.events if event[0] != "stream"]
    return output_text(kernel.widgets.resolve_widgets(outputs)), shown


async def test_a_progress_bar_is_told_as_it_is_in_the_end(kernels: Kernels) -> None:
    text, shown = await told(
        kernels,
        "bar, count = w.FloatProgress(max=10.0, description='Epochs'), w.HTML('0/10')\n"
        "display(w.HBox([w.HTML('<b>train</b>'), bar, count]))\n"
        "for n in range(1, 11): bar.value = n; count.value = f'{n}/10 [00:01&lt;00:00]'",
    )
    assert text == "train Epochs 10/10 10/10 [00:01<00:00]", "tqdm writes it so"
    assert "10/10" not in str(shown.events[0][1]["data"])


async def test_a_text_that_is_no_html_is_told_as_it_is(kernels: Kernels) -> None:
    text, _ = await told(kernels, "display(w.Text('a &lt; b and c < d > e'))")
    assert text == "a &lt; b and c < d > e"


async def test_what_an_output_widget_holds_is_told(kernels: Kernels) -> None:
    text, shown = await told(
        kernels,
        "out = w.Output()\ndisplay(w.VBox([w.Label('Log:'), out]))\n"
        "with out:\n    print('captured')\n    display(7)",
    )
    assert text == "Log:\ncaptured\n7"
    assert shown.kinds() == ["display_data"]


async def test_a_widget_that_nobody_knows_is_told_as_it_was_shown(kernels: Kernels) -> None:
    kernel = await kernels.get("a.ipynb")
    await kernel.execute("1", Shown())
    data = {"application/vnd.jupyter.widget-view+json": {"model_id": "gone"}, "text/plain": "Bar"}
    output = {"output_type": "display_data", "data": data, "metadata": {}}
    assert kernel.widgets.resolve_widgets([output]) == [output]


async def test_a_page_is_an_output_and_a_proposed_cell_is_told(kernels: Kernels) -> None:
    kernel = await kernels.get("a.ipynb")
    shown = Shown()
    reply = await kernel.execute("len?", shown)
    assert (reply.status, reply.note) == ("ok", "")
    assert "number of items in a container" in shown.events[0][1]["data"]["text/plain"]
    assert shown.kinds() == ["display_data"]
    reply = await kernel.execute("get_ipython().set_next_input('x = 1')", Shown())
    assert "proposes a cell" in reply.note
