"""The page Tools, in a real browser."""

from web_browser import accessible


def test_page_opens(visit, demo_server):
    """The page opens."""
    page = visit(demo_server.url + "#/tools")
    page.get_by_role("heading", level=1, name="Tools").wait_for()
    accessible(page)
