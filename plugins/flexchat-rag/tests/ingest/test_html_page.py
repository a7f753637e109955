"""What of a page is read, and what is only counted."""

import time

import pytest


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>a <img src=x alt='two cats'> b</p>", "a [Picture: two cats] b"),
        ("<p>a<img src=x alt=''> b</p>", "a b"),
        ("<img src=x title='a chart'>", "[Picture: a chart]"),
        ("<a href=/><svg aria-label=Home><path/></svg></a>", "Home"),
        ("<a href=/ aria-label=Start><i></i></a>", "Start"),
        ("<p aria-label=Label>shown</p>", "shown"),
        ("<svg><title>Sales</title><text>17 %</text></svg>", "Sales 17 %"),
        ("<noscript><p>without scripts</p></noscript>", "without scripts"),
        ("<details><summary>More</summary>inside</details>", "More\n\ninside"),
        ("<dialog>asked</dialog>", "asked"),
        ("<textarea>first\n second</textarea>", "first\n second"),
        ("<p>Name <input value=Anna> <input type=email value=a@b></p>", "Name Anna a@b"),
        ("<input type=hidden value=x><input type=password value=x><input type=submit value=x>", ""),
        ("<input type=image alt=Search>", "Search"),
        ("<select><option>one<option>two</select>", "one\ntwo"),
        ("<p><abbr title='for example'>e.g.</abbr> this</p>", "e.g. (for example) this"),
        ("<object><p>a PDF of prices</p></object>", "a PDF of prices"),
        ("<p hidden=until-found>found</p>", "found"),
        ("<iframe srcdoc='<h2>In</h2><p>framed</p>'></iframe>after", "In\nframed\n\nafter"),
        ("<map><area alt='Bavaria' href=x></map>", "Bavaria"),
    ],
)
def test_what_stands_for_text_is_read(write, text_of, html, expected):
    """Alternatives of pictures, labels of what shows no words, what is typed in or chosen, pages in pages."""
    assert text_of(write("a.html", f"<body>{html}</body>"))[0] == expected


@pytest.mark.parametrize(
    ("html", "note"),
    [
        ("<img src=x><img src=y>", "2 pictures without a text"),
        ("<nav><a>Menu</a></nav>", "1 navigation block"),
        ("<template><p>later</p></template>", "1 template"),
        ("<button>Buy</button>", "1 button"),
        ("<iframe src=other.html></iframe>", "1 embedded page"),
        ("<video src=x></video><audio src=y></audio>", "1 video, 1 recording"),
        ("<p hidden>x</p><p style='Display : none'>y</p><div style='visibility:hidden'>z</div>", "3 hidden elements"),
        ("<svg><path/></svg>", "1 drawing without a text"),
        ("<canvas></canvas><embed src=x>", "2 embedded objects"),
    ],
)
def test_what_is_left_out_is_counted(write, text_of, html, note):
    """Scripts and styles are not: nobody takes them for text."""
    text, (notes,) = text_of(write("a.html", f"<body><p>read</p><script>x</script><style>y</style>{html}</body>"))
    assert text == "read"
    assert note.split(",")[0] in notes


def test_a_frameset_says_that_its_frames_are_not_read(write, text_of):
    """It has no text of its own."""
    assert text_of(write("a.html", "<frameset><frame src=a><frame src=b></frameset>")) == (
        "",
        ["holds what is not read: 2 frames"],
    )


def test_the_description_of_a_page_is_read_and_its_title_stands_above(write, read):
    """A title in a drawing is not that of the page."""
    head = "<head><meta name=Description content='What  it is'></head>"
    (section,), _ = read(write("a.html", f"{head}<body><svg><title>no</title></svg><p>Text</p></body>"))
    assert (section.headings, section.text) == ((), "What it is\n\nno\n\nText")
    pieces, _ = read(write("b.html", "<title>Only a title</title>"))
    assert [piece.text for piece in pieces] == ["Only a title"]


def test_pages_in_pages_end_somewhere(write, text_of):
    """Each is quoted in the one around it."""
    page = "innermost"
    for _ in range(6):
        page = '<p>level</p><iframe srcdoc="' + page.replace("&", "&amp;").replace('"', "&quot;") + '"></iframe>'
    text, notes = text_of(write("a.html", page))
    assert text.count("level") == 4
    assert notes == ["holds what is not read: 1 embedded page"]


@pytest.mark.timed
def test_labels_within_labels_cost_no_more_than_their_size(write, text_of):
    """Whether an element says anything is known when it ends, without looking into it again."""
    page = "<div aria-label=x>" * 4_000 + "deep" + "</div>" * 4_000
    begun = time.thread_time()
    assert text_of(write("a.html", page))[0] == "deep"
    assert time.thread_time() - begun < 2
