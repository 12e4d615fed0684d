from __future__ import annotations

import ast

from asking import module, probed, probes


def test_a_loss_is_a_tensor_with_its_graph() -> None:
    fact = probed("def f(step, x):\n    loss = step(x)\n    loss.backward()\n    probe(loss)\n")
    assert fact.is_tensor
    assert fact.has_graph


def test_scaled_and_helped() -> None:
    for backward in ("scaler.scale(loss).backward()", "accelerator.backward(loss)", "(loss / 4).backward()"):
        assert probed(f"def f(step, x):\n    loss = step(x)\n    {backward}\n    probe(loss)\n").has_graph, backward


def test_the_same_name_given_another_value_is_not_known() -> None:
    assert probed("def f(x):\n    loss = g(x)\n    loss.backward()\n    loss = h(loss)\n    probe(loss)\n").kind is None
    assert probed("def f(x):\n    loss = h(x)\n    probe(loss)\n    loss = g(x)\n    loss.backward()\n").kind is None


def test_the_backward_of_a_function_is_no_backward_pass() -> None:
    parsed = module("class F(Function):\n    pass\n\nF.backward(ctx, g)\nctx.backward(g)\nloss.backward()\n")
    assert [ast.unparse(found.call) for found in parsed.losses.backwards] == ["loss.backward()"]


def test_what_flows_into_a_loss() -> None:
    parsed = module("""
        def f(model, loader):
            total = 0
            kept = 0
            for x in loader:
                part = model(x)
                total += part
                kept += part
            probe(kept)
            loss = total / len(loader)
            loss.backward()
    """)
    (probe,) = probes(parsed)
    assert parsed.losses.flows_on("total", probe)
    assert parsed.losses.flows_on("part", probe)
    assert not parsed.losses.flows_on("kept", probe)


def test_the_backward_passes_of_a_loop() -> None:
    parsed = module("""
        for x in a:
            def closure():
                f(x).backward()
            for y in b:
                g(y).backward()
    """)
    outer, inner = parsed.tree.nodes(ast.For)
    assert [found.call.lineno for found in parsed.losses.in_loop(outer)] == [5]
    assert parsed.losses.in_loop(inner) == parsed.losses.in_loop(outer)
