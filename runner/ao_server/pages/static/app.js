// What pages do beyond htmx: the choice of colours, ages, copying, choosing rows, and the end of a timeline.
// Pages work without it.
(() => {
  const root = document.documentElement;
  const MOST_ENTRIES = 1000;

  const button = document.getElementById("theme");
  const choices = ["", "light", "dark"];
  const showTheme = () => {
    button.textContent = `Colours: ${root.dataset.theme || "auto"}`;
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
  // Times in the zone of the reader: ages of the last day are relative, and each time tells itself in full as its title.
  const format = (options) => { const known = new Intl.DateTimeFormat(undefined, options); return (at) => known.format(at); };
  const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
  const inFull = format({ year: "numeric", month: "short", day: "numeric", ...clock, timeZoneName: "short" });
  const onDay = format({ month: "short", day: "numeric" });
  const inYear = format({ year: "numeric", month: "short", day: "numeric" });
  const atClock = format({ ...clock, timeZoneName: "short" });
  const showTimes = (isAge) => {
    const now = new Date();
    for (const time of document.querySelectorAll(isAge ? "time[data-ago]" : "time:not([data-ago], [title])")) {
      const at = new Date(time.dateTime);
      if (isNaN(at)) continue;
      const seconds = (now - at) / 1000;
      const day = at.getFullYear() === now.getFullYear() ? onDay(at) : inYear(at);
      const isToday = at.toDateString() === now.toDateString();
      const text = isAge ? (seconds < 86400 ? age(seconds) : day) : `${isToday ? "" : `${day}, `}${atClock(at)}`;
      if (time.textContent === text && time.title) continue;
      time.textContent = text;
      time.title = `${inFull(at)}${seconds < 86400 ? `, ${age(seconds)} ago` : ""}; ${time.dateTime}`;
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
    showTimes(true);
    showTimes(false);
    showAxes();
    filter();
    for (const hidden of document.querySelectorAll("[data-copy][hidden], .all[hidden]")) hidden.hidden = false;
  };
  // The bars of a run have one axis, which grows with it.
  const showAxes = () => {
    const spans = {};
    const bars = document.querySelectorAll(".bar svg");
    for (const { dataset: { run }, viewBox } of bars) spans[run] = Math.max(spans[run] || 1, viewBox.baseVal.width);
    for (const bar of bars) {
      const span = spans[bar.dataset.run];
      if (bar.viewBox.baseVal.width !== span) bar.setAttribute("viewBox", `0 0 ${span} 10`);
      bar.querySelector("[data-open]")?.setAttribute("x2", span);
    }
  };

  const look = document.getElementById("look");
  const [kinds, find] = ["kinds", "find"].map((id) => document.getElementById(id));
  const filter = () => {
    if (!look) return;
    const words = find.value.toLowerCase();
    const entries = document.querySelectorAll("#timeline > .entry");
    let count = 0;
    for (const entry of entries) {
      const { kind, thinks } = entry.dataset;
      const fits = (kinds.value === "thinks" ? thinks !== undefined : !kinds.value || kind === kinds.value)
        && (!words || entry.textContent.toLowerCase().includes(words));
      entry.hidden = !fits;
      count += fits;
    }
    document.getElementById("found").textContent = words || kinds.value ? `${count} of ${entries.length} entries of this page` : "";
  };
  if (look) {
    look.hidden = false;
    look.addEventListener("input", filter);
    document.getElementById("zone").textContent = `Times in ${Intl.DateTimeFormat().resolvedOptions().timeZone}`;
  }

  enhance();
  setInterval(() => showTimes(true), 1000);
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
