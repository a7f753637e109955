// Media of messages and of tools' results: { kind, mime_type, bytes, name, sha256 } or, from a server that keeps none,
// { …, data } in Base64.
//   mediaList(parts, { label, more })   a list: images are shown, sounds can be played, other files downloaded
//   mediaLabel(part)   "chart.png, image/png, 12,345 bytes"      mediaAddress(part)   null if it has none to show

import { h, icon } from "./dom.js";

// Pixel formats only: an SVG or a page could contain scripts; a data: URL is built from the data checked here.
const PICTURES = /^image\/(png|jpeg|gif|webp)$/;
const SOUNDS = /^audio\//;
const BASE64 = /^[A-Za-z0-9+/]+=*$/;
const DIGEST = /^[0-9a-f]{64}$/;

/** Return the address of a part's bytes. */
export function mediaAddress({ sha256, mime_type: type, data }) {
  if (DIGEST.test(sha256)) return `api/media/${sha256}`;
  return PICTURES.test(type) && typeof data === "string" && BASE64.test(data) ? `data:${type};base64,${data}` : null;
}

/** Whether a part is an image that the page shows. */
export function isPicture(part) {
  return PICTURES.test(part.mime_type) && mediaAddress(part) !== null;
}

/** Return the list of media; false if there are none. more: further entries, in words. */
export function mediaList(parts, { label = "Media", more = [] } = {}) {
  const shown = Array.isArray(parts) ? parts.map((part) => h("li", {}, mediaNode(part))) : [];
  const words = more.map((text) => h("li", { class: "muted" }, text));
  return shown.length + words.length > 0 && h("ul", { class: "media", "aria-label": label }, shown, words);
}

function mediaNode(part) {
  const address = mediaAddress(part);
  const text = mediaLabel(part);
  if (!address) return text;
  if (isPicture(part)) {
    const picture = h("img", { src: address, alt: part.name || "Image without a name", loading: "lazy" });
    return h("figure", {}, part.sha256 ? h("a", { href: address, target: "_blank", rel: "noreferrer" }, picture) : picture, h("figcaption", {}, text));
  }
  if (SOUNDS.test(part.mime_type)) return h("figure", {}, h("audio", { src: address, controls: true, preload: "metadata", "aria-label": part.name || "Sound without a name" }), h("figcaption", {}, text));
  return h("a", { href: address, download: part.name || "", class: "media-file" }, icon("document"), text);
}

/** Describe a part in words. */
export function mediaLabel({ name, mime_type: type, bytes, data }) {
  const size = bytes ?? (typeof data === "string" ? Math.floor((data.replace(/=+$/, "").length * 3) / 4) : null);
  return [name, type, size === null ? null : `${size.toLocaleString()} bytes`].filter(Boolean).join(", ");
}
