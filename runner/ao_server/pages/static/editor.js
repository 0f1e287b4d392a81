// The editor of agents and schemas: tabs, checks as one types, line numbers, and keys of a code editor.
// The page works without it: then its buttons send the form.
(() => {
  document.querySelector('#errors ~ form [aria-invalid="true"]')?.focus();
  const form = document.querySelector("form[data-check]");
  if (!form) return;
  const PAUSE_MS = 300;

  // Tabs, as in the ARIA Authoring Practices: arrows, Home and End move; the address keeps the tab.
  const list = form.querySelector(".tabs");
  const tabs = list ? [...list.querySelectorAll("a")] : [];
  const panelOf = (tab) => document.getElementById(tab.hash.slice(1));
  const show = (chosen, focus) => {
    for (const tab of tabs) {
      const isChosen = tab === chosen;
      tab.setAttribute("aria-selected", isChosen);
      tab.tabIndex = isChosen ? 0 : -1;
      panelOf(tab).hidden = !isChosen;
    }
    if (focus) chosen.focus();
    history.replaceState(null, "", chosen.hash);
    for (const area of panelOf(chosen).querySelectorAll("textarea.code")) number(area);
  };
  const tabWith = (element) => tabs.find((tab) => panelOf(tab).contains(element));
  if (list) {
    list.setAttribute("role", "tablist");
    for (const tab of tabs) {
      tab.setAttribute("role", "tab");
      tab.id = `${tab.hash.slice(1)}-tab`;
      tab.setAttribute("aria-controls", tab.hash.slice(1));
      const panel = panelOf(tab);
      panel.setAttribute("role", "tabpanel");
      panel.setAttribute("aria-labelledby", tab.id);
      tab.addEventListener("click", (event) => { event.preventDefault(); show(tab); });
      tab.addEventListener("keydown", (event) => {
        const at = tabs.indexOf(tab);
        const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
        if (event.key === " ") { event.preventDefault(); show(tab); }
        if (to === undefined) return;
        event.preventDefault();
        show(tabs[(to + tabs.length) % tabs.length], true);
      });
    }
  }

  // Fields that belong to one type of agent.
  const type = form.elements.type;
  const showType = () => {
    for (const field of form.querySelectorAll("[data-for]")) {
      const input = field.querySelector("input, textarea");
      field.hidden = field.dataset.for !== type.value && !input.value;
    }
  };
  if (type) {
    type.addEventListener("change", showType);
    showType();
  }

  // Line numbers, with the lines that have a problem.
  function number(area) {
    const gutter = area.parentElement.querySelector(".gutter");
    const list = document.getElementById(`${area.id}-problems`);
    const bad = new Set([...(list ? list.querySelectorAll("[data-line]") : [])].map((item) => Number(item.dataset.line)));
    const lines = area.value.split("\n").length;
    const wanted = `${lines}:${[...bad]}`;
    gutter.hidden = false;
    if (gutter.dataset.shows !== wanted) {
      gutter.dataset.shows = wanted;
      gutter.replaceChildren(...Array.from({ length: lines }, (_, at) => {
        const line = document.createElement("span");
        line.textContent = `${at + 1}\n`;
        if (bad.has(at + 1)) line.className = "bad";
        return line;
      }));
    }
    gutter.scrollTop = area.scrollTop;
  }
  const goTo = (area, line) => {
    const begin = area.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    const end = area.value.indexOf("\n", begin);
    area.focus();
    area.setSelectionRange(begin, end < 0 ? area.value.length : end);
  };
  const linkLines = () => {
    for (const item of form.querySelectorAll(".trouble [data-line]")) {
      const area = document.getElementById(item.parentElement.dataset.of);
      if (!area || item.querySelector("button")) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "quiet";
      button.textContent = `Go to line ${item.dataset.line}`;
      button.addEventListener("click", () => goTo(area, Number(item.dataset.line)));
      item.append(" ", button);
    }
  };

  // Enter keeps the indentation, and Tab indents: not before somebody has typed, nor after Escape, so that it leaves.
  const insert = (area, text) => {
    if (!document.execCommand("insertText", false, text)) area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
  };
  const areas = [...form.querySelectorAll("textarea.code")];
  for (const area of areas) {
    number(area);
    area.addEventListener("scroll", () => number(area));
    if (area.readOnly) continue;
    const hint = document.createElement("span");
    hint.className = "hint keys";
    hint.id = `${area.id}-keys`;
    hint.textContent = "While you type, Tab indents; Esc, then Tab leaves.";
    area.closest(".field").append(hint);
    area.setAttribute("aria-describedby", `${area.getAttribute("aria-describedby") || ""} ${hint.id}`.trim());
    let leaves = true;
    area.addEventListener("focus", () => { leaves = true; });
    area.addEventListener("pointerdown", () => setTimeout(() => { leaves = false; }));
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") leaves = true;
      if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
      const line = area.value.slice(0, area.selectionStart).split("\n").pop();
      if (event.key === "Tab" && !event.shiftKey && !leaves) {
        event.preventDefault();
        insert(area, "  ");
      } else if (["}", "]"].includes(event.key) && /^\s{2,}$/.test(line)) {
        event.preventDefault();
        area.setSelectionRange(area.selectionStart - 2, area.selectionEnd);
        insert(area, event.key);
      } else if (event.key === "Enter") {
        event.preventDefault();
        insert(area, `\n${/^\s*/.exec(line)[0]}${/[{[]\s*$/.test(line) ? "  " : ""}`);
      }
      if (!["Escape", "Tab", "Shift"].includes(event.key)) leaves = false;
    });
  }
  for (const button of form.querySelectorAll("[data-format]")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const area = document.getElementById(button.dataset.format);
      try {
        area.value = JSON.stringify(JSON.parse(area.value), null, 2);
        check();
      } catch { area.focus(); } // the check says what is wrong
    });
  }

  // The server checks. What it says replaces the parts of the page that are marked as live; the typed text stays.
  let sent = 0;
  let asked = "";
  let timer;
  const check = async () => {
    clearTimeout(timer);
    const mine = ++sent;
    const body = new URLSearchParams(new FormData(form));
    body.set("do", asked);
    try {
      const answer = await fetch(form.dataset.check, { method: "POST", body });
      if (!answer.ok || mine !== sent) return;
      take(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch { /* the next check, or saving, tells */ }
  };
  const take = (page) => {
    for (const part of form.querySelectorAll("[data-live]")) {
      const now = page.getElementById(part.id);
      if (now && now.innerHTML !== part.dataset.shows) {
        part.dataset.shows = now.innerHTML;
        part.replaceChildren(...now.childNodes);
      }
    }
    for (const field of form.querySelectorAll("input[id], select[id], textarea[id]")) {
      const now = page.getElementById(field.id);
      if (!now || field.closest("[data-live]")) continue;
      if (now.hasAttribute("aria-invalid")) field.setAttribute("aria-invalid", "true");
      else field.removeAttribute("aria-invalid");
      if (asked.startsWith("sample-") && field.id === `${asked.slice(7)}_sample`) field.value = now.value;
    }
    if (asked.startsWith("sample-")) asked = "";
    linkLines();
    areas.forEach(number);
  };
  let isDirty = false;
  form.addEventListener("submit", () => { isDirty = false; });
  addEventListener("beforeunload", (event) => { if (isDirty) event.preventDefault(); });
  form.addEventListener("input", (event) => {
    isDirty = true;
    if (event.target.matches("textarea.code")) number(event.target);
    clearTimeout(timer);
    timer = setTimeout(check, PAUSE_MS);
  });
  form.addEventListener("click", (event) => {
    const button = event.target.closest("button[formaction]");
    if (!button) return;
    event.preventDefault();
    asked = button.value;
    check();
  });

  linkLines();
  // What was typed before this script was there, or comes back with the page, is checked, too.
  if ([...form.elements].some((field) => field.defaultValue !== undefined && field.value !== field.defaultValue)) check();
  if (list) {
    const wrong = form.querySelector(".trouble .error");
    show((wrong && tabWith(wrong)) || tabs.find((tab) => tab.hash === location.hash) || tabs[0]);
    if (wrong) form.querySelector('[aria-invalid="true"]')?.focus();
  }
})();
