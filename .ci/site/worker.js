// A page opened from a folder (file:) may start no worker, and the search runs in one: a hidden frame does its work.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow.document
      inside.open()
      inside.write(`<script>
        postMessage = data => parent.postMessage(data, "*")
        importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((done, failed) => {
          const script = document.createElement("script")
          script.src = url
          script.onload = done
          script.onerror = failed
          document.body.append(script)
        })), Promise.resolve())
      <\/script><script src="${url}"><\/script>`)
      inside.close()
      this.ready = new Promise(done => this.frame.addEventListener("load", done))
      addEventListener("message", event => {
        if (event.source !== this.frame.contentWindow) return
        const told = new MessageEvent("message", { data: event.data })
        this.dispatchEvent(told)
        if (this.onmessage) this.onmessage(told)
      })
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {
      this.frame.remove()
    }
  }
}
