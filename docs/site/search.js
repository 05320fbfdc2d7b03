// Finds sections by words: each word must be in the title of the page, of the section, or in its text; titles
// count more than text. A link with ?q=WORDS opens with what they find. SECTIONS comes from sections.js: [page, title of the page, id, title, text] each.
"use strict";
const FOUND_MAX = 20;
const AROUND = 80; // characters shown on each side of the first word that was found

const box = document.getElementById("search");
const list = document.getElementById("found");

function score(section, words) {
    const [, page, , title, text] = section;
    const [inPage, inTitle, inText] = [page, title, text].map((part) => part.toLowerCase());
    let sum = 0;
    for (const word of words) {
        const one = (inPage.includes(word) ? 8 : 0) + (inTitle.includes(word) ? 4 : 0) + (inText.includes(word) ? 1 : 0);
        if (one === 0) return 0;
        sum += one;
    }
    return sum;
}

function excerpt(text, word) {
    const at = Math.max(text.toLowerCase().indexOf(word), 0);
    const from = Math.max(at - AROUND, 0);
    return (from > 0 ? "… " : "") + text.slice(from, at + word.length + AROUND).trim() + " …";
}

function row([page, name, id, title, text], words) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = `${page}.html${id ? "#" + id : ""}`;
    link.textContent = `${name}: ${title}`;
    const shown = document.createElement("p");
    shown.textContent = excerpt(text, words[0]);
    item.append(link, shown);
    return item;
}

function search() {
    const words = box.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
    list.hidden = words.length === 0;
    if (list.hidden) return;
    const found = SECTIONS.map((section) => [score(section, words), section])
        .filter(([points]) => points > 0)
        .sort((a, b) => b[0] - a[0])
        .slice(0, FOUND_MAX);
    const nothing = document.createElement("li");
    nothing.textContent = "Nothing has all of these words.";
    list.replaceChildren(...(found.length > 0 ? found.map(([, section]) => row(section, words)) : [nothing]));
}

box.addEventListener("input", search);
box.value = new URLSearchParams(location.search).get("q") ?? "";
search();
document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== box) {
        event.preventDefault();
        box.focus();
    } else if (event.key === "Escape" && document.activeElement === box) {
        box.value = "";
        search();
    }
});
