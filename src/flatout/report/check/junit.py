"""JUnit's XML, as CI servers read it: a suite a file, a failed case a finding."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

from flatout.check.result import CheckResult, Diagnosis, FileResult
from flatout.report.check import Options
from flatout.report.check.parts import place

# XML 1.0 has no way to write these, https://www.w3.org/TR/xml/#charsets
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(result: CheckResult, options: Options) -> str:
    """The whole document. Where nothing was found there is one passed case: some servers take none for a failure."""
    cases = sum(len(file.diagnoses) + (file.error is not None) for file in result.files)
    failures = len(result.diagnoses)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="flatout" tests="{max(1, cases)}" failures="{failures}" errors="{len(result.errors)}">',
    ]
    for file in result.files:
        lines += _suite(file)
    if not result.files:
        lines += ['  <testsuite name="flatout" tests="1" failures="0" errors="0">']
        lines += ['    <testcase classname="flatout" name="no GPU mistakes found"/>', "  </testsuite>"]
    return "\n".join([*lines, "</testsuites>", ""])


def _suite(file: FileResult) -> list[str]:
    failures, errors = len(file.diagnoses), int(file.error is not None)
    head = f'tests="{failures + errors}" failures="{failures}" errors="{errors}"'
    lines = [f"  <testsuite name={_attribute(file.file)} {head}>"]
    for diagnosis in file.diagnoses:
        lines += _case(diagnosis)
    if file.error is not None:
        lines.append(f'    <testcase classname={_attribute(file.file)} name="flatout">')
        lines += [f"      <error message={_attribute(file.error)}/>", "    </testcase>"]
    return [*lines, "  </testsuite>"]


def _case(diagnosis: Diagnosis) -> list[str]:
    finding = diagnosis.finding
    text = f"{place(finding)}: {finding.message}"
    if finding.remedy is not None and finding.remedy.text:
        text += f"\nhelp: {finding.remedy.text}"
    file, name = _attribute(finding.file), _attribute(f"{finding.code} {finding.name}")
    return [
        f'    <testcase classname={file} name={name} file={file} line="{finding.line}">',
        f'      <failure type="{finding.severity}" message={_attribute(finding.message)}>{_text(text)}</failure>',
        "    </testcase>",
    ]


def _attribute(text: str) -> str:
    return quoteattr(_NO_XML.sub("\ufffd", text), {"\n": "&#10;"})


def _text(text: str) -> str:
    return escape(_NO_XML.sub("\ufffd", text))
