"""Numbers as people write them and first lines as programs do: what is not read is named, with a remedy."""

import io

import pytest

from dpbo_core.data.csv_file import csv_names, detect_separator, read_csv
from dpbo_core.data.header import PUBLIC_FILE, SENSITIVE_FILE
from dpbo_core.data.values import ambiguous_number, detect_form
from dpbo_core.errors import StudyInvalid

FORMS = {
    "thousands separators": [
        ["279.34", "1,442.10", "878.06"], ["1,250", "2,500", "10,000", "500"], ["1.442,10", "1.000"],
        ["1 442,10", "279"], ["1\u202f442,10"], ["1\u00a0442"], ["1'442.10"], ["1\u2019442.10"], ["-1,250"],
        ["\u22121,442.10", "5"], ["1,250,000"],
    ],
    "decimal comma": [["29,4", "1,250"], ["0,125", "0,250"], ["1,25"]],
    "a minus sign": [["\u22125", "3"], ["\u20135.5"]],
    "dates": [
        ["05/06/2024"], ["31.12.2024"], ["2024-05-09", "2024-05-10 12:00"], ["5-6-24"], ["19-Sep-03"],
        ["1 May 2024"],
    ],
    "a unit": [["5 mg", "7 mg"], ["$5.00"], ["12%"]],
}  # fmt: skip


@pytest.mark.parametrize(("words", "values"), [(words, one) for words, lists in FORMS.items() for one in lists])
def test_the_form_of_numbers_is_named(words, values):
    assert words in str(detect_form(values))


@pytest.mark.parametrize("values", [[], ["1", "2.5"], ["GYN", "INF"], ["1,2,3"], ["0,000,1"], ["10", "1E1", "2D4"]])
def test_other_texts_have_no_form(values):
    assert detect_form(values) is None


@pytest.mark.parametrize(("cells", "number"), [
    (["279", "1,442"], "1,442"), (["279", "1,442", "1,5"], None), (["0,442"], None), (["1442"], None), ([], None),
    (["279,5", "1.442"], "1.442"), (["279,5", "1.4425"], None), (["-1,442", ""], "-1,442"), (["1.442"], None),
])  # fmt: skip
def test_a_comma_of_two_meanings_between_semicolons_is_told(cells, number):
    assert ambiguous_number(cells) == number


@pytest.mark.parametrize(("header", "sign"), [
    ("age;dose, mg;ward;out", ";"), ("age\tdose, mg\tout", "\t"), ("age,ward,out", ","), ("a, b, c", ","),
    ('"a;b;c;d",out', ","), ("dose, mg, total;out", ";"), ("dose,mg;ward;out", ";"), ("a;b,c,d", ","), ("one", ","),
])  # fmt: skip
def test_the_separator_is_the_sign_that_splits_the_header(header, sign):
    assert detect_separator(header.encode()) == sign
    for mode in (PUBLIC_FILE, SENSITIVE_FILE):  # alike, whatever stands below
        assert csv_names(io.BytesIO(header.encode() + b"\n"), mode=mode, display_name="t")[0] == sign


FIRST_LINES = {
    "sep=;\nage;out\n1;2\n": "says what separates the fields",
    "\ufeffsep=,\nage,out\n1,2\n": "says what separates the fields",
    "# export of 2024\nage,out\n1,2\n": "is a remark",
    "#export\nage,out\n1,2\n": "is a remark",
    "# a, b\nage,out\n1,2\n": "is a remark",
    "age,out\r1,2\r3,4\r": "a carriage return alone",
    "age,out,\n1,2,\n3,4,\n": "ends in a separator",
    "age,out\n1,2,\n3,4,\n": "each line ends in a separator",
    "age,out\n1,7,2\n2,8,4\n": "the row names or numbers in front of each line have no name",
    "age;out\n1,5\n": "line 2 of t has 1 fields, its header has 2",
}


@pytest.mark.parametrize(("text", "words"), FIRST_LINES.items())
def test_a_first_line_that_is_no_header_is_named_if_public_alone(text, words):
    with pytest.raises(StudyInvalid) as error:
        read_csv(io.BytesIO(text.encode()), mode=PUBLIC_FILE, display_name="t")
    assert words in str(error.value)
    said = ""
    try:  # the first line of a sensitive file may be its first record: nothing is said of what it holds
        read_csv(io.BytesIO(text.encode()), mode=SENSITIVE_FILE, display_name="t")
    except StudyInvalid as sensitive:
        said = str(sensitive)
    assert words not in said


def test_a_number_sign_before_a_name_is_part_of_the_name():
    assert list(read_csv(io.BytesIO(b"#age,out\n1,2\n"), mode=PUBLIC_FILE, display_name="t").columns) == [
        "#age",
        "out",
    ]
