// Light, dark, or as the system has it; and the colours that canvases are drawn with, which come from the style sheet.

const ORDER = ['auto', 'light', 'dark'];
const NAMES = [
  'text',
  'muted',
  'grid',
  'panel',
  'accent',
  'good',
  'warn',
  'bad',
  's1',
  's2',
  's3',
  's4',
  's5',
  's6',
  's7',
  's8',
  'heat0',
  'heat1',
  'heat2',
  'heat3',
  'heat4',
  'heat5',
];

export const palette = {};
const listeners = [];

export function onThemeChange(listener) {
  listeners.push(listener);
}

function readPalette() {
  const style = getComputedStyle(document.documentElement);
  for (const name of NAMES) {
    palette[name] = style.getPropertyValue('--' + name).trim();
  }
  listeners.forEach((listener) => listener());
}

export function nextTheme() {
  const root = document.documentElement;
  setTheme(ORDER[(ORDER.indexOf(root.dataset.theme) + 1) % ORDER.length]);
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  document.getElementById('theme').textContent = 'Theme: ' + theme;
  try {
    localStorage.setItem('causeway-theme', theme);
  } catch {
    // Not kept, then.
  }
  readPalette();
}

export function startTheme() {
  setTheme(ORDER.includes(document.documentElement.dataset.theme) ? document.documentElement.dataset.theme : 'auto');
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', readPalette);
  document.getElementById('theme').addEventListener('click', nextTheme);
}
