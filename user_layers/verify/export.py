"""Reports for machines: JSON, JUnit's XML, and folders that show a counterexample again."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from firmware_sim.checks.export import as_json as findings_as_json
from firmware_sim.errors import UsageError
from user_layers.files import write_atomic
from user_layers.repro import Content, Repro, save, workspace_files
from user_layers.verify.command import LayerReport, Report, told
from user_layers.verify.verdict import PROPERTIES
from user_layers.verify.work import Counterexample, Job, model_files
from user_layers.workspace import Workspace

SAMPLE = "case.json"


def as_json(report: Report) -> dict[str, Any]:
    """One object."""
    return {
        "command": "verify",
        "ok": report.code == 0,
        "seed": report.seed,
        "seconds": round(report.seconds, 3),
        "layers": {name: _layer(one) for name, one in report.layers.items()},
    }


def _layer(one: LayerReport) -> dict[str, Any]:
    skipped: dict[str, dict[str, int]] = {}
    for (name, why), times in one.skipped.items():
        skipped.setdefault(name, {})[why] = times
    return {
        "cases": one.cases,
        "elements": one.elements,
        "seconds": round(one.seconds, 3),
        "held": dict(one.held),
        "refused": dict(one.refused),
        "skipped": skipped,
        "counterexamples": [_counterexample(found) for found in one.found],
    }


def _counterexample(one: Counterexample) -> dict[str, Any]:
    failure = one.failure
    return {
        "property": failure.property,
        "kind": failure.kind,
        "during": failure.during,
        "firmware": failure.firmware,
        "number": one.number,
        "case": one.case,
        "where": failure.where,
        "shapes": failure.shapes,
        "problem": failure.problem,
        "first_command": list(one.lines),
        "tried": one.runs,
        "smallest": one.smallest,
        "seconds": round(one.seconds, 3),
        "findings": findings_as_json(failure.findings),
        "sample": one.sample.as_dict(),
    }


def write_junit(path: Path, report: Report) -> None:
    """JUnit's XML: a suite for each layer, a test for each property. Errors: UsageError where it cannot be
    written."""
    root = ElementTree.Element("testsuites", name="verify", time=f"{report.seconds:.3f}")
    for layer in report.layers.values():
        failed = {one.failure.property: one for one in reversed(layer.found)}
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=layer.name,
            tests=str(len(PROPERTIES)),
            failures=str(len(failed)),
            time=f"{layer.seconds:.3f}",
        )
        for name in PROPERTIES:
            case = ElementTree.SubElement(suite, "testcase", classname=f"verify.{layer.name}", name=name)
            if name in failed:
                text = "\n".join(told(failed[name], report.seed))
                problem = failed[name].failure.problem
                ElementTree.SubElement(case, "failure", message=problem).text = text
            elif not layer.cases:
                ElementTree.SubElement(case, "skipped", message="no case was tried")
    data: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    try:
        write_atomic(path, data + b"\n")
    except OSError as error:
        raise UsageError(f"--junit {path} cannot be written: {error.strerror or error}") from error


def save_repros(parent: Path, job: Job, report: Report) -> list[Path]:
    """A folder for each counterexample: the workspace's sources, the sample and its arrays. Errors: those of
    `save`."""
    sources = {} if job.root is None else workspace_files(Workspace.find(job.root))
    if job.model is not None:
        sources |= {path.name: path for path in model_files(job.model)}
    return [
        _saved(parent, job, report, layer, one, sources)
        for layer in report.layers.values()
        for one in layer.found
    ]


def _saved(
    parent: Path,
    job: Job,
    report: Report,
    layer: LayerReport,
    one: Counterexample,
    sources: dict[str, Content],
) -> Path:
    words = ["verify", layer.name, "--case", SAMPLE, "--seed", str(job.seed), "--check", job.check]
    for name, shape in job.shapes:
        words += ["--shapes", f"{name}={'x'.join(map(str, shape))}"]
    code = 5 if one.failure.property in ("checks", "schedule") else 1
    about = {"number": one.number, "seed": job.seed, **_counterexample(one)}
    arrays = {f"x{i}.npy": array for i, array in enumerate(one.arrays)}
    files: dict[str, Content] = {**sources, **arrays, SAMPLE: one.sample.to_json()}
    what = "\n".join(told(one, report.seed))
    return save(parent, f"{layer.name}-{one.failure.property}", Repro(tuple(words), code, what, about), files)
