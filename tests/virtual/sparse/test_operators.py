"""Operations on sparse tensors give what the CPU gives; what has no answer is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch

from flatout.errors import UnsupportedError
from flatout.virtual import native_functions
from flatout.virtual.operators import operator
from flatout.virtual.sparse.registration import OWN
from flatout.virtual.sparse.shared import SHARED
from flatout.virtual.sparse.tensors import CONSTRUCTORS

if TYPE_CHECKING:
    pass

pytestmark = [
    pytest.mark.usefixtures("machine"),
    # PyTorch's own, about any sparse tensor that a script makes; on a real GPU too.
    pytest.mark.filterwarnings("ignore:Sparse invariant checks"),
]

INDICES, SIZE = [[0, 2, 3], [1, 0, 3]], (4, 5)


def matrix(device: str, values: tuple[float, ...] = (0.5, -0.25, 1.0)) -> torch.Tensor:
    return torch.sparse_coo_tensor(INDICES, values, SIZE, device=device).coalesce()


def empty(device: str) -> torch.Tensor:
    return torch.sparse_coo_tensor(size=SIZE, device=device)


Arguments = Callable[[str], tuple[Any, ...]]
ARGUMENTS: dict[str, Arguments] = {
    "_coalesced_": lambda device: (matrix(device), False),
    "_sparse_broadcast_to": lambda device: (matrix(device), (2, *SIZE)),
    "_to_sparse": lambda device: (torch.eye(3, device=device),),
    "_to_sparse.sparse_dim": lambda device: (matrix(device), 2),
    "cat": lambda device: ([matrix(device), matrix(device)], 0),
    "copy_": lambda device: (empty(device), matrix(device)),
    "copy_sparse_to_sparse_": lambda device: (empty(device), matrix(device)),
    "norm.ScalarOpt_dim": lambda device: (matrix(device), 2, [0, 1]),
    "native_norm.ScalarOpt_dim_dtype": lambda device: (matrix(device), 2, [], False, None),
    "permute": lambda device: (matrix(device), (1, 0)),
    "pow.Tensor_Scalar": lambda device: (matrix(device), 2),
    "resize_as_sparse_": lambda device: (empty(device), matrix(device)),
    "sparse_mask": lambda device: (torch.ones(SIZE, device=device), matrix(device)),
    "sparse_resize_": lambda device: (empty(device), (6, 7), 2, 0),
    "sparse_resize_and_clear_": lambda device: (matrix(device), (6, 7), 2, 0),
    "sum.dim_IntList": lambda device: (matrix(device), [0]),
    "unsqueeze": lambda device: (matrix(device), 0),
}
NUMBERS = ("mul", "div")
SUMS = ("add", "sub")


def called(name: str, device: str) -> Any:
    base, _, form = name.partition(".")
    overload = operator(f"aten::{name}").overload
    keywords: dict[str, Any] = {"out": empty(device)} if "out" in form else {}
    plain = base.rstrip("_") if not base.startswith("_") else base
    if name in ARGUMENTS:
        arguments = ARGUMENTS[name](device)
    elif plain in NUMBERS:
        arguments = (matrix(device), torch.tensor(2.0, device=device))
    elif plain in SUMS:
        arguments = (matrix(device), matrix(device))
    else:
        arguments = (matrix(device),)
    if form.endswith("mode"):
        keywords["rounding_mode"] = "floor"
    if name == "pow.Tensor_Scalar_out":
        arguments = (matrix(device), 2)
    if name == "norm.ScalarOpt_dim_dtype":
        arguments, keywords = (matrix(device), 2, [0, 1], False), {"dtype": torch.float64}
    if name == "zeros.out":
        arguments = (SIZE,)
    if name == "signbit.out":
        keywords = {"out": empty(device).bool()}
    return overload(*arguments, **keywords)


def face(result: Any) -> Any:
    if not isinstance(result, torch.Tensor):
        return result
    parts = (result._nnz(), result.sparse_dim(), result.is_coalesced()) if result.is_sparse else ()
    return result.layout, result.dtype, result.shape, parts


@pytest.mark.parametrize("name", SHARED)
def test_what_the_cpu_gives(name: str) -> None:
    try:
        expected = called(name, "cpu")
    except (RuntimeError, AttributeError) as error:
        with pytest.raises(type(error)):
            called(name, "cuda")
        return
    result = called(name, "cuda")
    if name.startswith(SUMS):  # CUDA puts the parts of a sum behind each other
        result, expected = result.coalesce(), expected.coalesce()
    assert face(result) == face(expected)
    if isinstance(result, torch.Tensor):
        assert result.is_cuda
        torch.testing.assert_close(result.to_dense().cpu(), expected.to_dense(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("alpha", [1, 2])
@pytest.mark.parametrize("dense", [True, False])
def test_sums_with_a_factor(alpha: int, dense: bool) -> None:
    def total(device: str) -> torch.Tensor:
        first = torch.ones(SIZE, device=device) if dense else matrix(device)
        return torch.add(first, matrix(device), alpha=alpha).to_dense().cpu()

    assert torch.equal(total("cuda"), total("cpu"))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.ones(SIZE, device="cuda") + torch.zeros(3, 3, device="cuda").to_sparse(),
        lambda x: x + torch.zeros(3, 3, device="cuda").to_sparse(),
        lambda x: x + torch.ones(SIZE, device="cuda"),
    ],
)
def test_sums_that_cuda_refuses(call: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(RuntimeError, match=r"same size|add\(sparse, dense\)"):
        call(matrix("cuda"))


def test_there_and_back() -> None:
    moved = matrix("cpu").cuda()
    assert moved.device == torch.device("cuda", 0)
    assert moved.is_coalesced()
    assert moved.indices().tolist() == INDICES
    back = moved.cpu()
    assert back.to_dense().tolist() == matrix("cpu").to_dense().tolist()
    assert "layout=torch.sparse_coo" in repr(moved)
    assert moved.type() == "torch.cuda.sparse.FloatTensor"


def test_a_sparse_tensor_on_meta_stays_the_scripts_own() -> None:
    own = torch.sparse_coo_tensor(
        torch.zeros(2, 3, dtype=torch.int64, device="meta"), torch.zeros(3, device="meta"), SIZE
    )
    assert (own.device.type, own._nnz()) == ("meta", 3)


REFUSED: dict[str, Callable[[torch.Tensor], Any]] = {
    "addmm": lambda x: torch.sparse.mm(x, torch.ones(5, 2, device="cuda")),
    "_sparse_softmax": lambda x: torch.sparse.softmax(x, 1),
    "mul.out": lambda x: x * x,
    "bmm": lambda x: torch.bmm(x.unsqueeze(0), torch.ones(1, 5, 2, device="cuda")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_rest_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"aten::{name}.*sparse tensor"):
        REFUSED[name](matrix("cuda"))


def test_what_cuda_has_no_kernel_for_fails_in_its_words() -> None:
    with pytest.raises(NotImplementedError, match=r"'aten::exp.*' with arguments from the 'SparseCUDA' backend"):
        matrix("cuda").exp()


def test_the_lists_name_operators_with_a_sparse_kernel_on_cuda() -> None:
    if native_functions.find_table() is None:
        pytest.skip("this PyTorch does not bring the table of its operators along")
    assert {*SHARED, *OWN, *CONSTRUCTORS} <= native_functions.with_kernel_for("SparseCUDA")
    assert not set(SHARED) & set(OWN)
