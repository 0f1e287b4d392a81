// What pages do beyond htmx: the choice of colours, copying, and checkboxes for many rows. Pages work without it.
(() => {
  const root = document.documentElement;

  const button = document.getElementById("theme");
  const choices = ["", "light", "dark"];
  const show = () => {
    const chosen = root.dataset.theme || "";
    button.textContent = { "": "Auto", light: "Light", dark: "Dark" }[chosen];
    button.setAttribute("aria-label", `Colours: ${button.textContent}`);
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    const chosen = choices[(choices.indexOf(root.dataset.theme || "") + 1) % choices.length];
    if (chosen) root.dataset.theme = chosen;
    else delete root.dataset.theme;
    document.cookie = `ao_theme=${chosen}; path=/; max-age=31536000; samesite=lax`;
    show();
  });
  show();

  const say = (text) => { document.getElementById("notice").textContent = text; };

  document.addEventListener("click", async (event) => {
    const copy = event.target.closest("[data-copy]");
    if (!copy) return;
    try {
      await navigator.clipboard.writeText(document.getElementById(copy.dataset.copy).textContent);
      say("Copied");
    } catch {
      say("The browser does not allow copying here; select the text instead");
    }
  });
})();
