// A menu beside a word; arrow keys, Enter and Escape work in it.

const place = () => document.getElementById("menu");
let finish = null;

export function closeMenu() {
  place().hidden = true;
  finish?.(null);
  finish = null;
}

// Show a menu below an element. `ask` returns a promise of its entries; resolves to the chosen one, or null.
export function menuFor(anchor, ask) {
  closeMenu();
  const menu = place();
  const note = (text) => Object.assign(document.createElement("p"), { textContent: text });
  const box = anchor.getBoundingClientRect();
  const top = box.bottom + scrollY + 4;
  const fill = (...content) => {
    menu.replaceChildren(...content);
    Object.assign(menu.style, { left: "0", top: `${top}px` });
    const left = Math.max(8, Math.min(box.left, document.documentElement.clientWidth - menu.offsetWidth - 8));
    menu.style.left = `${left + scrollX}px`;
  };
  menu.hidden = false;
  fill(note("…"));
  return new Promise((resolve) => {
    finish = (entry) => { resolve(entry); if (entry === null && document.activeElement?.closest("#menu")) anchor.focus(); };
    const mine = finish;
    ask().then((entries) => {
      if (finish !== mine) return;
      if (!entries.length) return fill(note("No alternatives"));
      fill(...entries.map((entry) => {
        const button = document.createElement("button");
        button.type = "button";
        button.setAttribute("role", "menuitem");
        const rest = Object.assign(document.createElement("span"), { className: "rest", textContent: entry.rest.slice(0, 60) });
        button.append(entry.label, rest);
        button.addEventListener("click", () => { finish = null; menu.hidden = true; resolve(entry); });
        return button;
      }));
      menu.querySelector("button").focus();
    }).catch((error) => fill(note(error.message)));
  });
}

document.addEventListener("keydown", (event) => {
  const menu = place();
  if (menu.hidden) return;
  if (event.key === "Escape") closeMenu();
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const buttons = [...menu.querySelectorAll("button")];
  const next = buttons.indexOf(document.activeElement) + step;
  buttons[(next + buttons.length) % buttons.length]?.focus();
});
document.addEventListener("pointerdown", (event) => {
  if (!place().hidden && !event.target.closest("#menu")) closeMenu();
});
