// What pages do beyond htmx: the choice of colours, ages, copying, choosing rows, and the end of a timeline.
// Pages work without it.
(() => {
  const root = document.documentElement;
  const MOST_ENTRIES = 1000;

  const button = document.getElementById("theme");
  const choices = ["", "light", "dark"];
  const showTheme = () => {
    button.textContent = { "": "Auto", light: "Light", dark: "Dark" }[root.dataset.theme || ""];
    button.setAttribute("aria-label", `Colours: ${button.textContent}`);
  };
  button.addEventListener("click", () => {
    const chosen = choices[(choices.indexOf(root.dataset.theme || "") + 1) % choices.length];
    if (chosen) root.dataset.theme = chosen;
    else delete root.dataset.theme;
    document.cookie = `ao_theme=${chosen}; path=/; max-age=31536000; samesite=lax`;
    showTheme();
  });
  button.hidden = false;
  showTheme();

  const notice = document.getElementById("notice");
  const say = (text) => {
    notice.textContent = text;
    setTimeout(() => { if (notice.textContent === text) notice.textContent = ""; }, 6000);
  };

  if (notice.textContent) say(notice.textContent);

  const age = (seconds) => {
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
      if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
    }
    return `${Math.max(0, Math.floor(seconds))} s`;
  };
  const showAges = () => {
    for (const time of document.querySelectorAll("time[data-ago]")) {
      const text = age((Date.now() - Date.parse(time.dateTime)) / 1000);
      if (time.textContent !== text) {
        time.title = time.dateTime;
        time.textContent = text;
      }
    }
  };

  // Times of a timeline in the zone of the reader; the day stands there unless it is today.
  const showTimes = () => {
    const today = new Date().toDateString();
    for (const time of document.querySelectorAll(".entry time:not([title])")) {
      const at = new Date(time.dateTime);
      if (isNaN(at)) continue;
      const day = at.toDateString() === today ? "" : `${at.toLocaleDateString(undefined, { month: "short", day: "numeric" })} `;
      time.textContent = day + at.toLocaleTimeString(undefined, { hour12: false });
      time.title = `${at.toLocaleString(undefined, { timeZoneName: "short" })}, ${time.dateTime}`;
    }
  };
  document.addEventListener("change", ({ target }) => {
    if (!target.dataset.most) return;
    const bytes = [...target.files].reduce((sum, file) => sum + file.size, 0);
    const isTooLarge = bytes > Number(target.dataset.most);
    target.toggleAttribute("aria-invalid", isTooLarge);
    target.form.querySelector("button.main").disabled = isTooLarge;
    if (isTooLarge) say(`The files have ${(bytes / 1e6).toFixed(1)} MB; ${target.dataset.most / 1e6} MB are the most`);
  });

  const enhance = () => {
    showAges();
    showTimes();
    for (const hidden of document.querySelectorAll("[data-copy][hidden], .all[hidden]")) hidden.hidden = false;
  };
  enhance();
  setInterval(showAges, 1000);
  document.addEventListener("htmx:after:swap", enhance);

  document.addEventListener("click", async (event) => {
    const copy = event.target.closest("[data-copy]");
    if (!copy) return;
    try {
      const answer = await fetch(copy.dataset.copy);
      await navigator.clipboard.writeText(await answer.text());
      say("Copied");
    } catch {
      say("The browser does not allow copying here; download it instead");
    }
  });
  document.addEventListener("change", (event) => {
    if (!event.target.matches("[data-all]")) return;
    for (const box of document.querySelectorAll('input[name="run_id"]')) box.checked = event.target.checked;
  });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !event.target.closest("form.resume, form.run")) return;
    const send = event.target.form.querySelector("button.main:not(:disabled)");
    if (send) event.target.form.requestSubmit(send);
  });

  // Lists that somebody keeps under a name: their addresses, in this browser only.
  const kept = document.querySelector("[data-kept]");
  const showKept = () => {
    const place = `ao_kept ${kept.dataset.kept}`;
    let lists = {};
    try { lists = JSON.parse(localStorage.getItem(place)) || {}; } catch { /* Nothing that can be read is kept. */ }
    const change = (text) => {
      try { localStorage.setItem(place, JSON.stringify(lists)); say(text); } catch { say("The browser does not allow keeping it"); }
      showKept();
    };
    const make = (name, text, settings) => Object.assign(document.createElement(name), { textContent: text, ...settings });
    kept.replaceChildren(...Object.keys(lists).sort().map((name) => {
      const one = make("span", "", { className: "badge" });
      const link = make("a", name, { href: kept.dataset.kept + lists[name] });
      if (lists[name] === location.search) link.setAttribute("aria-current", "true");
      const remove = make("button", "×", { type: "button", className: "quiet", ariaLabel: `Remove ${name}` });
      remove.addEventListener("click", () => { delete lists[name]; change(`${name} is kept no more`); });
      one.append(link, " ", remove);
      return one;
    }));
    if (location.search && !Object.values(lists).includes(location.search)) {
      const form = make("form", "", { className: "inline" });
      const name = make("input", "", { required: true, maxLength: 60, size: 16, placeholder: "Name of this list", ariaLabel: "Name of this list" });
      form.append(name, " ", make("button", "Keep"));
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        lists[name.value.trim()] = location.search;
        change(`${name.value.trim()} is kept in this browser`);
      });
      kept.append(form);
    }
    kept.hidden = !kept.children.length;
  };
  if (kept) showKept();

  const live = document.getElementById("live");
  const showLive = (text, state) => {
    if (!live) return;
    live.hidden = false;
    live.textContent = text;
    live.className = `live ${state}`;
  };
  document.addEventListener("htmx:sse:after:connection", () => showLive("live", "on"));
  document.addEventListener("htmx:sse:error", () => showLive("reconnecting", "off"));
  document.addEventListener("htmx:sse:close", (event) => {
    if (event.detail.reason === "message") showLive("ended", "");
  });

  // How much the inbox holds: beside its name, in the title, and as a notification where somebody has allowed it.
  const count = document.getElementById("inbox-count");
  const title = document.title;
  let asking = null;
  const showCount = async () => {
    try {
      const answer = await fetch(count.dataset.count);
      if (!answer.ok || answer.redirected) return;
      const found = await answer.json();
      count.hidden = found.count === "0";
      count.textContent = found.count;
      count.title = `${found.count} in the inbox, ${found.asking} of them questions`;
      document.title = found.count === "0" ? title : `(${found.count}) ${title}`;
      const isMore = asking !== null && found.asking > asking;
      asking = found.asking;
      if (isMore && document.hidden && "Notification" in window && Notification.permission === "granted") {
        const told = new Notification("A run waits for a person", { tag: "ao-inbox" });
        told.onclick = () => { window.focus(); location.href = "/ui/inbox"; };
      }
    } catch { /* The server is away; the next look tells. */ }
  };
  if (count) {
    showCount();
    setInterval(showCount, 5000);
  }
  const notify = document.getElementById("notify");
  if (notify && "Notification" in window && Notification.permission === "default") {
    notify.hidden = false;
    notify.addEventListener("click", async () => { notify.hidden = await Notification.requestPermission() !== "default"; });
  }

  const keepOpen = (part, message) => {
    const reasoning = message.querySelector(".reasoning");
    if (reasoning && part.querySelector(".reasoning[open]")) reasoning.open = true;
  };
  const append = (entry, part) => {
    const what = entry.querySelector(".what");
    const more = part.querySelector(".reasoning");
    const reasoning = what.querySelector(".reasoning");
    if (more && !reasoning) what.insertBefore(more, what.querySelector(":scope > .text"));
    else if (more) {
      const text = reasoning.querySelector(".text");
      text.append(more.querySelector(".text").textContent);
      reasoning.querySelector(".words").textContent = text.textContent.trim().split("\n").pop().slice(-160);
    }
    const said = part.querySelector(".what > .text");
    const text = what.querySelector(":scope > .text");
    if (said && text) text.append(said.textContent);
    else if (said) what.append(said);
  };

  // A whole message takes the place of its parts; and a page that stays open for long keeps the newest entries only.
  document.addEventListener("htmx:sse:after:message", () => {
    const timeline = document.getElementById("timeline");
    if (!timeline) return;
    const whole = new Map();
    for (const entry of timeline.querySelectorAll(".message")) whole.set(entry.dataset.message, entry);
    const begun = new Map();
    for (const part of timeline.querySelectorAll(".delta")) {
      const message = whole.get(part.dataset.message);
      const before = begun.get(part.dataset.message);
      if (message) keepOpen(part, message);
      else if (before) append(before, part);
      else begun.set(part.dataset.message, part);
      if (message || before) part.remove();
    }
    while (timeline.children.length > MOST_ENTRIES) timeline.firstElementChild.remove();
  });
})();
