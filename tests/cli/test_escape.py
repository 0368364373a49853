from hypothesis import example, given
from hypothesis import strategies as st

from mindx.cli.escape import StreamEscaper, escape, escape_line, in_ci

OSC_52 = "\x1b]52;c;aGVsbG8=\x07"


def test_control_sequences_are_shown_and_not_obeyed():
    assert escape(OSC_52, ci=False) == "\\x1b]52;c;aGVsbG8=\\x07"
    assert escape("a\x9b31mb", ci=False) == "a\\x9b31mb"
    assert escape("user\u202enimda", ci=False) == "user\\u202enimda"
    assert escape("\rlies", ci=False) == "\\x0dlies"


def test_what_is_drawn_as_nothing_is_shown():
    assert escape("a\u3164b", ci=False) == "a\\u3164b"
    assert escape("a\U000e0101b", ci=False) == "a\\U000e0101b"
    for code in (0x34F, 0x115F, 0x1160, 0x180B, 0xFE00, 0xFFA0, 0x2065, 0xFFF0, 0xE0041, 0xE01EF):
        assert chr(code) not in escape(chr(code), ci=False)


def test_plain_text_of_any_language_stays():
    for text in ("plain", "naïve café", "日本語\n\tx", "한국어", "emoji 🙂 ❤\ufe0f", "a\u00a0b"):
        assert escape(text, ci=False) == text


def test_a_name_that_is_no_utf8_is_shown_by_its_bytes():
    assert escape(b"a\xff".decode("utf-8", "surrogateescape"), ci=False) == "a\\xff"


def test_one_line_stays_one_line():
    assert escape_line("a\nb\tc", ci=False) == "a\\nb\\tc"


def test_ci_commands_lose_their_place_at_the_start():
    for line in ("::set-output name=a::b", "  ::add-mask::x", "##vso[task.set]", "##[command]x", "##teamcity[x]"):
        shown = escape(f"ok\n{line}\n", ci=True)
        assert "\n|" in shown.replace("\n  |", "\n|")
        assert escape(f"ok\n{line}\n", ci=False) == f"ok\n{line}\n"
    assert escape("a::b\n# # x\n## title", ci=True) == "a::b\n# # x\n## title"


def test_ci_is_told_by_the_environment():
    assert in_ci({"GITHUB_ACTIONS": "true"})
    assert not in_ci({"CI": "false"})
    assert not in_ci({})


@example([":", ":"])
@example(["x", "::"])
@example([" ", "##v", "so["])
@example(["::", "\n", ":", ":"])
@given(st.lists(st.sampled_from(["::", ":", "#", "##", "##v", "so[", " ", "\n", "x", "é", "\x1b", "##[", "teamcity["])))
def test_pieces_show_the_same_as_the_whole(pieces):
    for ci in (False, True):
        streamed = StreamEscaper(ci=ci)
        shown = "".join(streamed.feed(piece.encode()) for piece in pieces) + streamed.close()
        assert shown == escape("".join(pieces), ci=ci)


def test_a_character_cut_in_two_is_whole_again():
    streamed = StreamEscaper(ci=False)
    data = "é".encode()
    assert streamed.feed(data[:1]) + streamed.feed(data[1:]) + streamed.feed(b"\xff") + streamed.close() == "é\\xff"
