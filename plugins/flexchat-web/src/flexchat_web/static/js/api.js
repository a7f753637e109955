// Requests to the server. Paths are relative to the page: "api/tools/list".
//   const { tools } = await get("api/tools/list", { search: "x" });      get(path, query?, { signal }?)
//   await post("api/tools/call", { name, arguments });                    post, put, patch, del(path, body?, { signal }?)
//                                                                         post(path, null) sends no body; a text
//                                                                         is sent as it is: JSON
//   await upload("api/media", file, { signal, onProgress })               sends a file; onProgress(0 … 1)
//   post and stream also take { key }, an idempotency key: the same request again runs nothing twice
//   for await (const { event, data } of stream("chat/api", body, { signal })) …      a POST answered with events
//   for await (const … of watch("api/validation/runs/1/events", { signal })) …       a GET answered with events
//                                                                         lastEventId: only later events
// All throw ApiError: message is the problem's detail; status 0: the server could not be reached.
// uiConfig() is GET api/ui-config, cached; uiConfig(true) reloads it.

import { events } from "./sse.js";

/** A request that failed: status, message, problem (RFC 9457), problems [{path, text, line}]. */
export class ApiError extends Error {
  constructor(status, problem) {
    super([problem.detail, problem.error, problem.title].map(sentence).find(Boolean) || `The server answered with status ${status}.`);
    this.name = "ApiError";
    this.status = status;
    this.problem = problem;
    this.problems = [problem.problems, problem.errors].find(Array.isArray) || [];
  }
}

/** Return the text of an error: a proxy may answer with an object that has a message. */
function sentence(told) {
  const text = told && typeof told === "object" ? told.message : told;
  return typeof text === "string" ? text : "";
}

export const get = (path, query, options) => request("GET", address(path, query), undefined, options).then(content);
export const post = (path, body, options) => request("POST", path, body === null ? undefined : (body ?? {}), options).then(content);
export const put = (path, body, options) => request("PUT", path, body, options).then(content);
export const patch = (path, body, options) => request("PATCH", path, body, options).then(content);
export const del = (path, body, options) => request("DELETE", path, body, options).then(content);

/** Yield the events that answer a POST. */
export async function* stream(path, body, options) {
  yield* told(await request("POST", path, body, { ...options, accept: "text/event-stream" }));
}

/** Yield the events that answer a GET. */
export async function* watch(path, options) {
  yield* told(await request("GET", path, undefined, { ...options, accept: "text/event-stream" }));
}

const STOPPED = "urn:flexchat:problem:server-stopped";

async function* told(response) {
  try {
    for await (const one of events(response)) {
      if (one.event === "error" && one.data?.type === STOPPED) throw new ApiError(0, { ...one.data, title: "Cut off", stopped: true });
      yield one;
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof ApiError) throw error;
    throw new ApiError(0, { title: "Cut off", detail: "The connection to the server broke. Is it still running?" });
  }
}

/** Return a path with a query; null, undefined and empty values are left out. */
export function address(path, query = {}) {
  const kept = Object.entries(query ?? {}).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return kept.length ? `${path}?${new URLSearchParams(kept)}` : path;
}

let asked;

/** Return the settings of the server for the page. */
export function uiConfig(again = false) {
  if (!asked || again) {
    asked = get("api/ui-config");
    asked.catch(() => (asked = undefined));
  }
  return asked;
}

/** Return 32 random characters: a conversation's id, or a request's key. */
export function newId() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function request(method, path, body, { signal, accept = "application/json", lastEventId, key } = {}) {
  const headers = { accept };
  if (key) headers["idempotency-key"] = key;
  if (lastEventId) headers["last-event-id"] = lastEventId;
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, signal, body: body === undefined || typeof body === "string" ? body : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { title: "No connection", detail: "The server cannot be reached. Is it still running?" });
  }
  if (!response.ok) throw new ApiError(response.status, await problemOf(response));
  return response;
}

/** Send a file as the body of a POST, and return the answer. fetch reports no progress. */
export function upload(path, file, { signal, onProgress } = {}) {
  return new Promise((resolve, reject) => {
    const sending = new XMLHttpRequest();
    sending.open("POST", path);
    sending.setRequestHeader("content-type", file.type || "application/octet-stream");
    sending.upload.onprogress = ({ loaded, total }) => onProgress?.(total ? loaded / total : 0);
    sending.onerror = () => reject(new ApiError(0, { title: "Cut off", detail: "The file could not be sent: the connection broke." }));
    sending.onabort = () => reject(new DOMException("removed", "AbortError"));
    sending.onload = () => (sending.status < 300 ? resolve(JSON.parse(sending.responseText)) : reject(new ApiError(sending.status, problemIn(sending.responseText, sending))));
    signal?.addEventListener("abort", () => sending.abort());
    sending.send(file);
  });
}

async function problemOf(response) {
  return problemIn(await response.text().catch(() => ""), response);
}

function problemIn(text, { status, statusText }) {
  try {
    const data = JSON.parse(text);
    if (data && typeof data === "object") return data;
  } catch {
    // A proxy may answer with its own page.
  }
  return { title: statusText, detail: `The server answered with status ${status} ${statusText}.` };
}

async function content(response) {
  if (response.status === 204) return null;
  return /\bjson\b/.test(response.headers.get("content-type") || "") ? response.json() : response.text();
}
