"""What is known of a module's DataLoaders: options, also through dicts; loops; what workers run."""

from __future__ import annotations

import pytest
from asking import module, probed

IMPORTS = """\
import torch
from torch.utils.data import DataLoader, Dataset, Subset, random_split
class Rows(Dataset):
    def __getitem__(self, index):
        return self.read(index)
    def read(self, index):
        return helper(index)
def helper(index):
    return index
def collate(rows):
    return rows
"""


@pytest.mark.parametrize(
    ("code", "workers", "is_whole"),
    [
        ("DataLoader(ds)", 0, True),
        ("DataLoader(ds, 4, True, None, None, 2)", 2, True),
        ("DataLoader(ds, num_workers=n)", None, True),
        ("DataLoader(ds, **unknown)", None, False),
        ("DataLoader(*things, num_workers=1)", 1, False),
        ("kw = {'num_workers': 2}\nDataLoader(ds, **kw)", 2, True),
        ("kw = dict(num_workers=2)\nDataLoader(ds, **kw)", 2, True),
        ("kw = {}\nkw['num_workers'] = 3\nDataLoader(ds, **kw)", 3, True),
        ("kw = {}\nif debug:\n    kw['num_workers'] = 3\nDataLoader(ds, **kw)", None, False),
        ("kw = {'num_workers': 2}\nkw.pop('num_workers')\nDataLoader(ds, **kw)", 2, False),
        ("kw = {'num_workers': 2} if torch.cuda.is_available() else {}\nDataLoader(ds, **kw)", 2, True),
        ("kw = {}\nif torch.cuda.is_available():\n    kw.update({'num_workers': 2})\nDataLoader(ds, **kw)", 2, True),
        ("def f(**kw):\n    DataLoader(ds, **kw)", None, False),
    ],
)
def test_options(code: str, workers: int | None, is_whole: bool) -> None:
    (loader,) = module(IMPORTS + code).loaders.all
    assert (loader.workers, loader.options.is_whole) == (workers, is_whole)


@pytest.mark.parametrize(
    ("options", "pinned"),
    [
        ("", False),
        ("pin_memory=True", True),
        ("pin_memory=torch.cuda.is_available()", True),
        ("pin_memory=device.type == 'cuda'", True),
        ("pin_memory=flag", None),
        ("**options", None),
    ],
)
def test_whether_batches_are_pinned(options: str, pinned: bool | None) -> None:
    device = "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
    loop = f"for x, y in DataLoader(ds, {options}):\n    probe(x)"
    assert probed(IMPORTS + device + loop).pinned is pinned


def test_a_batch_that_is_a_dict() -> None:
    fact = probed(IMPORTS + "for b in DataLoader(ds):\n    b = {k: probe(v) for k, v in b.items()}")
    assert (fact.device, fact.pinned) == ("cpu", False)


@pytest.mark.parametrize(
    "made",
    [
        "rows = Rows()",
        "rows, rest = random_split(Rows(), [1, 2])",
        "rows = Subset(Rows(), range(9))",
    ],
)
def test_what_a_loader_loads(made: str) -> None:
    parsed = module(IMPORTS + f"{made}\ndef make(data):\n    return DataLoader(data)\nloader = make(rows)")
    (loader,) = parsed.loaders.all
    class_ = parsed.loaders.dataset_class(loader)
    assert class_ is not None
    assert [function.name for function in parsed.loaders.worker_functions(class_)] == ["__getitem__", "read", "helper"]


def test_the_function_that_makes_batches() -> None:
    parsed = module(IMPORTS + "loader = DataLoader(ds, collate_fn=collate)")
    assert [function.name for function in parsed.loaders.collate_functions(parsed.loaders.all[0])] == ["collate"]


@pytest.mark.parametrize(
    "loop",
    [
        "for x in loader: pass",
        "for i, x in enumerate(loader): pass",
        "for x in tqdm(loader): pass",
        "bar = tqdm(enumerate(loader), total=9)\nfor i, x in bar: pass",
        "def train(data):\n    for x in data: pass\ntrain(loader)",
        "class T:\n  def __init__(self):\n    self.l = DataLoader(ds)\n  def f(self):\n    for x in self.l: pass",
    ],
)
def test_the_loop_over_a_loader(loop: str) -> None:
    made = "" if loop.startswith("class") else "loader = DataLoader(ds)\n"
    parsed = module(IMPORTS + made + loop)
    assert [other is parsed.loaders.all[0] for _, other in parsed.loaders.loops] == [True]


def test_two_loaders_for_one_argument_are_not_told_apart() -> None:
    code = "def train(data):\n    for x in data: pass\ntrain(DataLoader(a))\ntrain(DataLoader(b))"
    assert module(IMPORTS + code).loaders.loops == []


def test_what_runs_again() -> None:
    code = "def train():\n    for x in loader: pass\nloader = DataLoader(ds)\n"
    once, again = module(IMPORTS + code + "train()"), module(IMPORTS + code + "for e in range(3):\n    train()")
    for parsed, expected in ((once, False), (again, True)):
        (loop,) = parsed.loaders.loops_over(parsed.loaders.all[0])
        assert parsed.loaders.runs_again(loop) is expected


def test_a_comprehension_runs_where_it_stands() -> None:
    fact = probed("import torch\nx = [1]\nx = torch.ones(2)\ny = [probe(x) for _ in z]\nx = 3")
    assert fact.is_tensor
