// Server-sent events of an answer to fetch (EventSource cannot POST).
//   for await (const { event, data, id } of events(response)) …   data: parsed JSON, or the text if it is not JSON;
//                                                                  id: the last one received, as text

/** Yield the events of a response until it ends. */
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = "message";
  let data = [];
  let id = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      rest += value ?? "";
      // A CR at the very end may be half of a CRLF.
      const whole = done ? rest : rest.replace(/\r$/, "");
      const lines = whole.split(/\r\n|\n|\r/);
      rest = lines.pop() + rest.slice(whole.length);
      for (const line of lines) {
        if (line === "") {
          if (data.length) yield { event, data: parsed(data.join("\n")), id };
          event = "message";
          data = [];
        } else if (line.startsWith("event:")) event = line.slice(6).trimStart();
        else if (line.startsWith("id:")) id = line.slice(3).trimStart();
        else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
