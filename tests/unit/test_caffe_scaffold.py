"""add_layer --caffe and --caffe-cpp, and what knows the files that they write."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmware_sim.errors import UsageError
from tests.support.workspaces import make_workspace, tpulayer
from user_layers.caffe.own import own_layers
from user_layers.scaffold import Made, add_layer, del_layer, layer_files
from user_layers.toolkit import Toolkit


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_workspace(tmp_path, ()).root


def names(made: Made, root: Path) -> list[str]:
    return [str(path.relative_to(root)) for path in made.files][4:]


def test_in_python(root: Path) -> None:
    made = add_layer(root, "my_crop", True, caffe="TPUMyCrop")
    assert names(made, root) == ["caffe/my_crop.py"]
    assert made.next_command == "build_layers && test_layers my_crop"
    with Toolkit(root) as toolkit:
        (found,) = own_layers(toolkit).values()
    assert found.type == "TPUMyCrop" and found.place.startswith("caffe/my_crop.py:")
    assert '"TPU_MY_CROP"' in (root / "caffe" / "my_crop.py").read_text()


def test_in_cpp(root: Path) -> None:
    assert names(add_layer(root, "a", caffe="A", cpp=True), root) == [
        "imp_bmnetu/a_layer.cpp",
        "imp_bmnetu/Makefile",
    ]
    (root / "imp_bmnetu" / "Makefile").write_text("# the user's\n")
    assert names(add_layer(root, "b", caffe="B", cpp=True), root) == ["imp_bmnetu/b_layer.cpp"]
    assert (root / "imp_bmnetu" / "Makefile").read_text() == "# the user's\n"
    assert 'IMP_BMNETU_LAYER("B", BLayer)' in (root / "imp_bmnetu" / "b_layer.cpp").read_text()
    assert "tpu_b_param_t param" in (root / "imp_bmnetu" / "b_layer.cpp").read_text()


def test_nothing_of_caffe_without_a_type(root: Path) -> None:
    assert names(add_layer(root, "a"), root) == []
    assert not (root / "caffe").exists() and not (root / "imp_bmnetu").exists()


def test_files_that_exist_are_kept(root: Path) -> None:
    (root / "caffe").mkdir()
    (root / "caffe" / "a.py").write_text("# the user's\n")
    with pytest.raises(UsageError, match=r"layer a exists already: caffe/a\.py"):
        add_layer(root, "a", caffe="A")
    assert not (root / "device" / "bm_device_a.c").exists()
    add_layer(root, "a")  # asks for no such file
    assert (root / "caffe" / "a.py").read_text() == "# the user's\n"
    add_layer(root, "a", caffe="A", force=True)
    assert "caffe_layer" in (root / "caffe" / "a.py").read_text()


@pytest.mark.parametrize("kind", ["", "T y", "9lives", 'a"b', "T\u00e4", "a-b"])
def test_types_become_names(root: Path, kind: str) -> None:
    with pytest.raises(UsageError, match="is no type: letters, digits and _ only"):
        add_layer(root, "a", caffe=kind)
    assert not list(root.glob("*/*a.c"))


def test_types_of_caffes_own(root: Path) -> None:
    with pytest.raises(UsageError, match="--caffe: Caffe itself has layers of type 'Softmax'"):
        add_layer(root, "a", caffe="Softmax", cpp=True)


def test_removing(root: Path) -> None:
    add_layer(root, "a", caffe="A")
    add_layer(root, "b", caffe="B", cpp=True)
    assert root / "caffe" / "a.py" in layer_files(root, "a")
    assert root / "imp_bmnetu" / "b_layer.cpp" in del_layer(root, "b")
    assert not (root / "imp_bmnetu" / "b_layer.cpp").exists() and (root / "caffe" / "a.py").exists()
    (root / "caffe" / "c.py").write_text("# of no layer\n")
    with pytest.raises(UsageError, match="there is no layer c; the workspace has a"):
        layer_files(root, "c")


def test_the_commands(root: Path) -> None:
    told = tpulayer("add_layer", "x", "--caffe", "A", "--caffe-cpp", "B", cwd=root, code=2).stderr
    assert "--caffe and --caffe-cpp: one of them" in told
    made = tpulayer("add_layer", "x", "--caffe-cpp", "B", "--dry-run", cwd=root).stdout
    assert "would write imp_bmnetu/x_layer.cpp" in made and not (root / "imp_bmnetu").exists()
