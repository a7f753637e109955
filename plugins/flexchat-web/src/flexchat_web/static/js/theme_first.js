// Sets the theme before the first paint. No module: those wait for the document.
try {
  document.documentElement.dataset.theme = localStorage.getItem("flexchat.theme") || "auto";
} catch {
  document.documentElement.dataset.theme = "auto";
}
