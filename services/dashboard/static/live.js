// Keeps the live parts of the page fresh: each [data-live] element is replaced by the HTML that the server renders
// for it. Parts with the same address come in one answer, each under its [data-of] name. Nothing is asked while the
// page is hidden; a lost connection is said, not hidden.
"use strict";
(() => {
  const status = document.getElementById("live");
  const groups = new Map();
  for (const part of document.querySelectorAll("[data-live]")) {
    groups.set(part.dataset.live, [...(groups.get(part.dataset.live) || []), part]);
  }
  let last = Date.now();

  function put(part, fresh) {
    if (!fresh || fresh.innerHTML === part.dataset.shown) return;
    if (part.contains(document.activeElement) || part.querySelector("details[open]")) return;
    part.dataset.shown = fresh.innerHTML;
    part.replaceChildren(...fresh.childNodes);
  }

  async function refresh(address) {
    try {
      const answer = await fetch(address, { headers: { Accept: "text/html" }, cache: "no-store" });
      if (answer.status === 401) { location.assign("/login?next=" + encodeURIComponent(location.pathname)); return; }
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").body;
      for (const part of groups.get(address)) {
        put(part, part.dataset.part ? fresh.querySelector('[data-of="' + part.dataset.part + '"]') : fresh);
      }
      last = Date.now();
    } catch { /* said below */ }
  }

  async function turn(address) {
    if (!document.hidden) await refresh(address);
    setTimeout(turn, 1000 * Number(groups.get(address)[0].dataset.every), address);
  }

  function say() {
    const seconds = Math.round((Date.now() - last) / 1000);
    const stale = seconds > 15;
    status.classList.toggle("stale", stale);
    const text = stale ? "connection lost, last seen " + seconds + " s ago" : "live";
    if (status.textContent !== text) status.textContent = text;
  }

  for (const [address, parts] of groups) setTimeout(turn, 1000 * Number(parts[0].dataset.every), address);
  setInterval(() => { if (!document.hidden) say(); }, 1000);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) { last = Date.now(); groups.forEach((_parts, address) => refresh(address)); }
  });
})();
