// Keeps the live parts of the page fresh: each [data-live] element is replaced by the HTML that the server renders
// for it. Nothing is asked while the page is hidden; a lost connection is said, not hidden.
"use strict";
(() => {
  const status = document.getElementById("live");
  const parts = [...document.querySelectorAll("[data-live]")];
  let last = Date.now();

  async function refresh(part) {
    try {
      const answer = await fetch(part.dataset.live, { headers: { Accept: "text/html" }, cache: "no-store" });
      if (answer.status === 401) { location.assign("/login?next=" + encodeURIComponent(location.pathname)); return; }
      if (!answer.ok) return;
      const text = await answer.text();
      if (text !== part.dataset.shown && !part.contains(document.activeElement) && !part.querySelector("details[open]")) {
        part.replaceChildren(...new DOMParser().parseFromString(text, "text/html").body.childNodes);
        part.dataset.shown = text;
      }
      last = Date.now();
    } catch { /* said below */ }
  }

  async function turn(part) {
    if (!document.hidden) await refresh(part);
    setTimeout(turn, 1000 * Number(part.dataset.every), part);
  }

  function say() {
    const seconds = Math.round((Date.now() - last) / 1000);
    const stale = seconds > 15;
    status.classList.toggle("stale", stale);
    const text = stale ? "connection lost, last seen " + seconds + " s ago" : "live";
    if (status.textContent !== text) status.textContent = text;
  }

  parts.forEach((part, index) => setTimeout(turn, 1000 * Number(part.dataset.every) + 120 * index, part));
  setInterval(() => { if (!document.hidden) say(); }, 1000);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) { last = Date.now(); parts.forEach(refresh); } });
})();
