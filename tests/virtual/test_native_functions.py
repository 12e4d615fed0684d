"""PyTorch's table of operators, read as it is written."""

from __future__ import annotations

from pathlib import Path

from flatout.virtual import native_functions


def test_the_table_is_read_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "native_functions.yaml"
    path.write_text(
        "- func: a(Tensor self) -> Tensor\n  dispatch:\n    CPU, CUDA: a\n  tags: core\n"
        "- func: b.x(Tensor self) -> Tensor\n  variants: method\n  device_check: NoCheck\n\n"
        "- func: c.out(Tensor self) -> Tensor\n  structured: True\n  dispatch:\n    SparseCUDA: c\n    CUDA: d\n"
    )
    table = native_functions.read(path)
    assert native_functions.with_kernel_for("CUDA", table) == {"a", "c.out"}
    assert native_functions.with_kernel_for("SparseCUDA", table) == {"c.out"}
    assert [name for name, entry in table.items() if entry.structured] == ["c.out"]
    assert [name for name, entry in table.items() if not entry.checked] == ["b.x"]


def test_the_installed_table_names_the_checks_of_cuda() -> None:
    add = native_functions.cuda_kernel("aten::add.Tensor")
    assert add == native_functions.CudaKernel(checked=False, structured=True, wrapper="wrapper_CUDA_add_Tensor")
    select = native_functions.cuda_kernel("aten::index_select")
    assert select == native_functions.CudaKernel(True, structured=False, wrapper="wrapper_CUDA__index_select")
    assert not native_functions.cuda_kernel("no::such").checked
