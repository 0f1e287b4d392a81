"""JUnit XML: what CI systems read in it."""

from pathlib import Path

from hypothesis import given
from junitparser import JUnitXml
from lxml import etree

from ao_conformance.reports.documents import junit_text
from ao_conformance.verdict import SuiteResult
from tests.conformance.reports.results import any_verdicts, every_verdict, hostile_results, small_result

SCHEMA = etree.XMLSchema(etree.parse(Path(__file__).with_name("junit.xsd")))

SMALL = """\
<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="AO executor protocol 3.0" tests="2" failures="1" errors="0" time="0.750">
  <testsuite name="Version" timestamp="2026-11-22T08:00:00Z" tests="2" errors="0" failures="1" skipped="0" time="0.750">
    <properties>
      <property name="command" value="demo --quiet" />
      <property name="executable" value="demo" />
      <property name="executable_version" value="1.2" />
      <property name="level" value="core" />
      <property name="protocol_version" value="3.0" />
      <property name="repeats" value="1" />
      <property name="seed" value="7" />
      <property name="suite" value="executor" />
      <property name="suite_version" value="0.1.0" />
    </properties>
    <testcase name="other-major: another major is refused" classname="core.Version" time="0.250">
      <failure message="AOX-011: `result`, exit 0" type="fail">AOX-011 (fail, line 2 of stdout)
  expected  `failure`, exit 64
  found     `result`, exit 0
  rule      ao conformance explain AOX-011

hint: compare the major as a number

    0.000  start   demo --quiet
    0.001  in      {"schema_version":"4.0"}
    0.100  out     {"event_type":"run_started","seq":1}
    0.200  out     {"event_type":"result","seq":2}
    0.250  exit    0

reproduce: ao conformance run --vector other-major -- demo --quiet</failure>
    </testcase>
    <testcase name="other-minor: any minor is accepted" classname="core.Version" time="0.500" />
  </testsuite>
</testsuites>
"""


def test_a_vector_is_a_case_and_a_failure_tells_the_rule_and_how_to_see_it_again() -> None:
    assert junit_text(small_result()) == SMALL


def test_each_verdict_has_its_place_and_known_failures_are_skipped() -> None:
    suite = etree.fromstring(junit_text(every_verdict()).encode())[0]
    held = {
        str(case.attrib["name"]).partition("word")[0]: [child.tag for child in case] for case in suite.iter("testcase")
    }

    assert held == {
        "Vpass": [],
        "Vfail": ["failure"],
        "Vwarn": ["system-out"],
        "Vnot_applicable": ["skipped"],
        "Vnever_exercised": ["skipped"],
        "Vuntestable": ["failure"],
        "Vharness_error": ["error"],
        "Kfail": ["skipped"],
    }


def test_another_parser_reads_the_same_numbers() -> None:
    read = JUnitXml.fromstring(junit_text(every_verdict()).encode())

    assert (read.tests, read.failures, read.errors) == (10, 4, 1)
    assert [(suite.name, suite.tests, suite.skipped) for suite in read] == [
        ("one topic", 8, 3),
        ("The result as a whole", 2, 0),
    ]


@given(any_verdicts())
def test_it_is_red_exactly_where_the_suite_is(result: SuiteResult) -> None:
    document = etree.fromstring(junit_text(result).encode())

    assert SCHEMA.validate(document), SCHEMA.error_log
    is_red = document.attrib["failures"] != "0" or document.attrib["errors"] != "0"
    assert is_red == (result.exit_code != 0)


@given(hostile_results())
def test_any_text_is_well_formed_xml_of_the_accepted_shape(result: SuiteResult) -> None:
    document = etree.fromstring(junit_text(result).encode())

    assert SCHEMA.validate(document), SCHEMA.error_log
    assert document.attrib["tests"] == "10"
