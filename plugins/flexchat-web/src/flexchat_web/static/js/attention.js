// When to reload data that others may have changed.
//   const stop = onReturn(() => …)   the window gets the focus again, or the network is back
//   reloadLater(node, run)             run() after a delay if the node is still shown: its state is not final
//   await reachable()                resolves once the server answers; polls until it does

const AGAIN_MS = 1000;

let waiting = null;

const timers = new WeakMap();

/** Call a function after a delay, unless the node has left the document by then; one timer for each node. */
export function reloadLater(node, run) {
  clearTimeout(timers.get(node));
  timers.set(node, setTimeout(() => node.isConnected && run(), AGAIN_MS));
}

/** Call a function whenever the page becomes visible again; return a function that unsubscribes. */
export function onReturn(run) {
  let last = 0;
  const come = () => {
    if (document.hidden || Date.now() - last < 100) return; // focus and visibility come together
    last = Date.now();
    run();
  };
  addEventListener("focus", come);
  addEventListener("online", come);
  document.addEventListener("visibilitychange", come);
  return () => {
    removeEventListener("focus", come);
    removeEventListener("online", come);
    document.removeEventListener("visibilitychange", come);
  };
}

/** Return a promise that resolves when the server can be reached; all callers share one. */
export function reachable() {
  waiting ||= answered().finally(() => (waiting = null));
  return waiting;
}

async function answered() {
  for (let seconds = 1; ; seconds = Math.min(30, seconds * 2)) {
    await new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        stop();
        resolve();
      };
      const timer = setTimeout(done, seconds * 1000);
      const stop = onReturn(done);
    });
    try {
      await fetch("health", { cache: "no-store" });
      return;
    } catch {
      // Not yet.
    }
  }
}
