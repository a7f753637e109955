// A scroll container that follows its growing end until the reader scrolls up, and again once they return to
// the end.
//   const follow = following(log, messages, (away) => …);   away: whether the newest content is out of view
//   follow.toEnd()  follow.refresh() after a change of its content  follow.close()
// A scroll event fires a frame after its cause, and the content may have grown by then: a distant end is no sign of
// the reader. A smaller scroll position is one, and so is reaching the end as it was last drawn.

const NEAR_PX = 48;
const AT_PX = 2; // tolerance: browsers round scroll positions

/** Follow the end of a scroll container; content: the node in it that grows. */
export function following(place, content, tell) {
  let follows = true;
  let was = 0;
  let drawn = 0;
  const left = () => place.scrollHeight - place.scrollTop - place.clientHeight;

  function toEnd() {
    follows = true;
    place.scrollTop = place.scrollHeight;
    was = place.scrollTop;
    tell(false);
  }

  function refresh() {
    drawn = place.scrollHeight;
    if (follows || left() <= AT_PX) toEnd();
    else tell(left() >= NEAR_PX);
  }

  function scrolled() {
    const up = place.scrollTop < was - 1;
    const end = Math.min(drawn, place.scrollHeight);
    const reached = place.scrollTop + place.clientHeight >= end - (up ? AT_PX : NEAR_PX);
    if (reached) follows = true;
    else if (up) follows = false;
    was = place.scrollTop;
    tell(!follows && left() >= NEAR_PX);
  }

  // An opened element keeps its position, so that it can be read.
  const opened = (event) => event.target.closest?.("summary") && (follows = false);
  content.addEventListener("click", opened);
  place.addEventListener("scroll", scrolled);
  const grown = new ResizeObserver(refresh);
  grown.observe(content);
  grown.observe(place);
  return {
    toEnd,
    refresh,
    close() {
      content.removeEventListener("click", opened);
      place.removeEventListener("scroll", scrolled);
      grown.disconnect();
    },
  };
}
