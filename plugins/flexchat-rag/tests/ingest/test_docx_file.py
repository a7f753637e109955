"""What of a Word document is read: wherever Word shows text, it is there, in its place."""

import zipfile

import docx
import pytest

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SPACES = (
    f'xmlns:w="{W}" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture" '
    'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" '
    'xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram" '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" '
    'xmlns:v="urn:schemas-microsoft-com:vml" xmlns:o="urn:schemas-microsoft-com:office:office"'
)
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
TYPES = "application/vnd.openxmlformats-officedocument"


def p(inner, style=""):
    return f"<w:p>{f'<w:pPr><w:pStyle w:val={style!r}/></w:pPr>' if style else ''}{inner}</w:p>"


def drawing(inner, properties=""):
    graphic = f"<a:graphic><a:graphicData>{inner}</a:graphicData></a:graphic>"
    return f"<w:drawing><wp:inline><wp:docPr id='1' name='x' {properties}/>{graphic}</wp:inline></w:drawing>"


def t(text):
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


@pytest.fixture
def make(tmp_path):
    """Write a document with this body, and parts beside it: {kind: (content type, xml)}."""

    def call(body, **parts):
        plain, path = tmp_path / "plain.docx", tmp_path / "a.docx"
        docx.Document().save(plain)
        with zipfile.ZipFile(plain) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
        files["word/document.xml"] = f"<w:document {SPACES}><w:body>{body}</w:body></w:document>".encode()
        relations, types = "", ""
        for kind, (content_type, xml) in parts.items():
            name = f"{kind}.xml"
            files[f"word/{name}"] = xml.encode()
            relation = {"header2": "header", "data": "diagramData"}.get(kind, kind)
            relations += f'<Relationship Id="r_{kind}" Type="{OFFICE}/{relation}" Target="{name}"/>'
            types += f'<Override PartName="/word/{name}" ContentType="{TYPES}.{content_type}+xml"/>'
        for name, end, more in (
            ("word/_rels/document.xml.rels", b"</Relationships>", relations),
            ("[Content_Types].xml", b"</Types>", types),
        ):
            files[name] = files[name].replace(end, more.encode() + end)
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return path

    return call


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        (f"<w:sdt><w:sdtPr/><w:sdtContent>{p(t('in a control'))}</w:sdtContent></w:sdt>", "in a control"),
        (p(f"{t('a ')}<w:sdt><w:sdtContent>{t('name')}</w:sdtContent></w:sdt>"), "a name"),
        (p(f"{t('a ')}<w:ins w:id='1' w:author='x'>{t('new')}</w:ins>"), "a new"),
        (p(f"<w:moveTo w:id='1' w:author='x'>{t('moved')}</w:moveTo>"), "moved"),
        (p(f"<w:fldSimple w:instr=' DATE '>{t('May')}</w:fldSimple>"), "May"),
        (p(f"<w:hyperlink r:id='x'>{t('a link')}</w:hyperlink>"), "a link"),
        (p(f"<w:smartTag><w:customXml>{t('tagged')}</w:customXml></w:smartTag>"), "tagged"),
        (p(f"<w:dir w:val='rtl'><w:bdo w:val='ltr'>{t('turned')}</w:bdo></w:dir>"), "turned"),
        (
            p("<w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:noBreakHyphen/><w:t>c</w:t><w:br/><w:t>d</w:t></w:r>"),
            "a\tb-c\nd",
        ),
        (
            p(
                "<w:r><w:ruby><w:rt><w:r><w:t>kan</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>X</w:t></w:r></w:rubyBase></w:ruby></w:r>"
            ),
            "X(kan)",
        ),
        (p("<w:r><w:sym w:font='Symbol' w:char='03B1'/></w:r>"), "α"),
    ],
)
def test_text_is_read_wherever_word_shows_it(make, text_of, xml, expected):
    """In controls, changes, fields, links and tags."""
    assert text_of(make(xml)) == (expected, [])


def test_a_table_in_a_table_is_read_in_its_cell(make, text_of):
    """Its rows are told apart by semicolons; a heading is one only outside of cells."""

    def table(*rows):
        cells = ("".join(f"<w:tc>{cell}</w:tc>" for cell in row) for row in rows)
        return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in cells)}</w:tbl>"

    inner = table([p(t("a")), p(t("b"))], [p(t("c")), p(t("d"))])
    deepest = table([inner + p(t("end"))])
    text, notes = text_of(make(table([p(t("outer")), deepest + p("")], [p(t("x")), p(t("y"))])))
    assert text == "outer | a | b; c | d; end\nx | y"
    assert notes == []


def test_rows_and_cells_in_controls_are_read_and_deleted_rows_are_not(make, text_of):
    """A repeating row of a form is a control around a row."""
    row = f"<w:tr><w:sdt><w:sdtContent><w:tc>{p(t('in both'))}</w:tc></w:sdtContent></w:sdt></w:tr>"
    gone = f"<w:tr><w:trPr><w:del w:id='1' w:author='x'/></w:trPr><w:tc>{p(t('gone'))}</w:tc></w:tr>"
    text, notes = text_of(make(f"<w:tbl><w:sdt><w:sdtContent>{row}</w:sdtContent></w:sdt>{gone}</w:tbl>"))
    assert text == "in both"
    assert notes == ["holds what is not read: 1 deletion kept as tracked change"]


def test_a_cell_over_several_rows_stands_in_each(make, text_of):
    """So that each row can be found by it."""

    def cell(text, merge):
        return f"<w:tc><w:tcPr><w:vMerge{merge}/></w:tcPr>{p(t(text) if text else '')}</w:tc><w:tc>{p(t('z'))}</w:tc>"

    rows = f"<w:tr>{cell('both', ' w:val=' + repr('restart'))}</w:tr><w:tr>{cell('', '')}</w:tr>"
    assert text_of(make(f"<w:tbl>{rows}</w:tbl>"))[0] == "both | z\nboth | z"


def test_deleted_and_hidden_text_is_left_out_and_counted(make, text_of):
    """What nobody sees in the finished document is not its text."""
    body = p(
        t("kept")
        + "<w:del w:id='1' w:author='x'><w:r><w:delText>gone</w:delText></w:r></w:del>"
        + f"<w:moveFrom w:id='2' w:author='x'>{t('moved away')}</w:moveFrom>"
        + "<w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r>"
        + "<w:r><w:rPr><w:vanish w:val='0'/></w:rPr><w:t>!</w:t></w:r>"
    )
    text, notes = text_of(make(body))
    assert text == "kept!"
    assert notes == ["holds what is not read: 2 deletions kept as tracked changes, 1 piece of hidden text"]


def test_a_field_is_read_as_what_it_shows_and_not_as_its_code(make, text_of):
    """Also one in the code of another, and those that are filled in by choosing."""

    def mark(kind, data=""):
        return f"<w:r><w:fldChar w:fldCharType='{kind}'>{data}</w:fldChar></w:r>"

    def code(text):
        return f"<w:r><w:instrText>{text}</w:instrText></w:r>"

    inner = mark("begin") + code("MERGEFIELD x") + mark("separate") + t("not shown") + mark("end")
    outer = mark("begin") + code("IF ") + inner + mark("separate") + t("shown") + mark("end")
    entries = "<w:listEntry w:val='red'/><w:listEntry w:val='blue'/>"
    choice = f"<w:ffData><w:ddList><w:result w:val='1'/>{entries}</w:ddList></w:ffData>"
    box = "<w:ffData><w:checkBox><w:checked/></w:checkBox></w:ffData>"
    body = p(outer + t(" ") + mark("begin", choice) + mark("end") + t(" ") + mark("begin", box) + mark("end"))
    assert text_of(make(body)) == ("shown blue ☒", [])


def test_text_boxes_stand_behind_their_paragraph_once(make, text_of):
    """Word writes them twice, for new and old readers."""
    box = f"<w:txbxContent>{p(t('in the box'))}<w:tbl><w:tr><w:tc>{p(t('cell'))}</w:tc></w:tr></w:tbl></w:txbxContent>"
    new = drawing(f"<wps:wsp><wps:txbx>{box}</wps:txbx></wps:wsp>")
    old = f"<w:pict><v:shape><v:textbox>{box}</v:textbox></v:shape></w:pict>"
    choice = f"<mc:Choice Requires='wps'>{new}</mc:Choice><mc:Fallback>{old}</mc:Fallback>"
    both = f"<w:r><mc:AlternateContent>{choice}</mc:AlternateContent></w:r>"
    assert text_of(make(p(t("before") + both) + p(t("after")))) == ("before\n\nin the box\n\ncell\n\nafter", [])
    assert text_of(make(p(f"<w:r>{old}</w:r>")))[0] == "in the box\n\ncell"


def test_notes_and_comments_stand_behind_the_paragraph_that_refers_to_them(make, text_of):
    """A comment says whose it is."""

    def notes(kind, *inner):
        return f"<w:{kind} {SPACES}>{''.join(inner)}</w:{kind}>"

    footnotes = notes("footnotes", f"<w:footnote w:id='2'>{p(t('Foot text'))}</w:footnote>")
    endnotes = notes("endnotes", f"<w:endnote w:id='3'>{p(t('End text'))}</w:endnote>")
    comments = notes("comments", f"<w:comment w:id='0' w:author='Anna'>{p(t('Really?'))}</w:comment>")
    body = p(
        t("Said")
        + "<w:r><w:footnoteReference w:id='2'/></w:r><w:r><w:endnoteReference w:id='3'/></w:r>"
        + "<w:r><w:commentReference w:id='0'/></w:r>"
    ) + p(t("Next"))
    path = make(
        body,
        footnotes=("wordprocessingml.footnotes", footnotes),
        endnotes=("wordprocessingml.endnotes", endnotes),
        comments=("wordprocessingml.comments", comments),
    )
    assert text_of(path)[0].split("\n\n") == [
        "Said [note 2] [endnote 3]",
        "[note 2] Foot text",
        "[endnote 3] End text",
        "[Comment by Anna: Really?]",
        "Next",
    ]


def test_headers_come_first_and_footers_last_each_text_once(make, text_of):
    """Sections mostly repeat them."""

    references = "".join(
        f"<w:{kind}Reference w:type='{which}' r:id='r_{part_name}'/>"
        for kind, which, part_name in (
            ("header", "default", "header"),
            ("header", "first", "header2"),
            ("footer", "default", "footer"),
        )
    )
    head = f"<w:hdr {SPACES}>{p(t('Letterhead'))}</w:hdr>"
    foot = f"<w:ftr {SPACES}>{p(t('Confidential'))}</w:ftr>"
    path = make(
        p(t("Body")) + f"<w:sectPr>{references}</w:sectPr>",
        header=("wordprocessingml.header", head),
        header2=("wordprocessingml.header", head),
        footer=("wordprocessingml.footer", foot),
    )
    assert text_of(path) == ("Letterhead\n\nBody\n\nConfidential", [])


def test_equations_are_written_on_a_line(make, text_of):
    """Fractions and powers keep their meaning; between other words and in a paragraph of their own."""

    def m(name, inner):
        return f"<m:{name}>{inner}</m:{name}>"

    def r(text):
        return m("r", m("t", text))

    square = m("sSup", m("e", r("b")) + m("sup", r("2")))
    root = m("rad", m("deg", "") + m("e", square + r("-4ac")))
    fraction = m("f", m("num", r("-b±") + root) + m("den", r("2a")))
    total = m(
        "nary", "<m:naryPr><m:chr m:val='∑'/></m:naryPr>" + m("sub", r("i=0")) + m("sup", r("n")) + m("e", r("x"))
    )
    body = p(t("where ") + m("oMath", r("x=") + fraction)) + p(m("oMathPara", m("oMath", total)))
    assert text_of(make(body))[0] == "where x=(-b±√(b^2-4ac))/2a\n\n∑_(i=0)^n x"


def picture(properties=""):
    return f"<w:r>{drawing('<pic:pic><pic:nvPicPr/></pic:pic>', properties)}</w:r>"


def test_pictures_are_read_as_their_texts_or_counted(make, text_of):
    """One that is marked as decoration is neither."""
    body = p(picture("descr='A cat'") + picture() + picture() + t("."))
    assert text_of(make(body)) == ("[Picture: A cat].", ["holds what is not read: 2 pictures without a text"])


def test_charts_and_diagrams_are_read_as_their_words(make, text_of):
    """One whose part is missing is counted, as are embedded files."""
    chart = f"<c:chartSpace {SPACES}><a:t>Sales</a:t><c:v>2024</c:v><c:v>17</c:v></c:chartSpace>"
    data = f"<dgm:dataModel {SPACES}><a:t>Plan</a:t><a:t>Do</a:t></dgm:dataModel>"
    inner = ("<c:chart r:id='r_chart'/>", "<dgm:relIds r:dm='r_data'/>", "<c:chart r:id='nowhere'/>")
    drawn = "".join(f"<w:r>{drawing(each)}</w:r>" for each in inner)
    embedded = "<w:r><w:object><v:shape><v:imagedata/></v:shape><o:OLEObject ProgID='Excel.Sheet.12'/></w:object></w:r>"
    path = make(
        p(drawn + embedded) + "<w:altChunk r:id='x'/>",
        chart=("drawingml.chart", chart),
        data=("drawingml.diagramData", data),
    )
    text, notes = text_of(path)
    assert text == "[Chart: Sales, 2024, 17][Diagram: Plan, Do]"
    assert notes == ["holds what is not read: 1 chart, 1 embedded object, 1 embedded document"]


def test_a_title_without_a_text_is_read(make, text_of):
    """A document may hold nothing else."""
    text, _ = text_of(make(p(t("First"), "Title") + p(t("Second"), "Title")))
    assert "First" in text
    assert "Second" in text
