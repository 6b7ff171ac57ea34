// One-key shortcuts and the help that names them. They leave alone whoever types into a field or holds a modifier.

export function startKeys(actions) {
  const help = document.getElementById('help');
  const open = () => help.showModal();
  document.getElementById('help-button').addEventListener('click', open);
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || help.open || event.target.closest('input, select, textarea')) {
      return;
    }
    const action = event.key === '?' ? open : actions[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  });
}

// Arrow keys within a group of which one is chosen.
export function arrowsChoose(group, choose) {
  group.addEventListener('keydown', (event) => {
    const step = {ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1}[event.key];
    if (!step) {
      return;
    }
    event.preventDefault();
    const buttons = [...group.querySelectorAll('[role=radio]')];
    const next = buttons[(buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length];
    choose(next);
    next.focus();
  });
}
