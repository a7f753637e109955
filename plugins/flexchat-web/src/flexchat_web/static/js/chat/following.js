// A place that scrolls along with what is written at its end, until its reader scrolls up; again once they are back at
// the end.
//   const follow = following(log, messages, (away) => …);   away: whether what is newest is out of view
//   follow.toEnd()  follow.refresh()  what is in it was changed  follow.close()
// A scroll event comes a frame after what caused it, and more may have been written by then: that the end is far says
// nothing of the reader. That the place is above where it was does, and so does reaching the end as it was last drawn.

const NEAR_PX = 48;
const AT_PX = 2; // browsers round

/** Follow the end of a place; content: the node in it that grows. */
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

  // Who opens something wants to read it where it is.
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
