// How the gateway is, in a word and, where somebody should know more, a sentence.
import {clock} from '/page/format.js';

const RESTART_SHOWN_S = 120;

export class State {
  constructor() {
    this.lostSince = null; // unix time, s, of this browser
    this.restartedAt = null; // unix time, s
    this.restartSeen = 0; // of performance.now(), ms
    this.pill = document.getElementById('state');
    this.banner = document.getElementById('banner');
  }

  answered() {
    this.lostSince = null;
  }

  failed() {
    this.lostSince = this.lostSince || Date.now() / 1000;
  }

  restarted(boot) {
    this.restartedAt = Number(boot) / 1000;
    this.restartSeen = performance.now();
  }

  // [state, word, level, sentence]
  judge(snapshot) {
    if (this.lostSince !== null) {
      return [
        'lost',
        'no answer',
        'bad',
        `No answer from the gateway since ${clock(this.lostSince)}. ` +
          'Asking again every second; what is shown below is the past.',
      ];
    }
    if (!snapshot) {
      return ['loading', 'connecting', '', ''];
    }
    if (!snapshot.live) {
      return ['stalled', 'not alive', 'bad', `The gateway does not serve: ${snapshot.reason}.`];
    }
    if (snapshot.draining) {
      return [
        'draining',
        'draining',
        'warn',
        'The gateway is draining: new connections are refused, those that are there run down.',
      ];
    }
    if (this.restartedAt !== null && performance.now() - this.restartSeen < RESTART_SHOWN_S * 1000) {
      return [
        'restarted',
        snapshot.ready ? 'ready' : 'not ready',
        levelOf(snapshot),
        `The gateway was started anew at ${clock(this.restartedAt)}: its counters began again at zero, ` +
          'and charts have a gap there.',
      ];
    }
    const idle = snapshot.connections.count === 0 ? 'idle' : 'ready';
    return [snapshot.ready ? idle : 'not-ready', snapshot.ready ? 'ready' : 'not ready', levelOf(snapshot), ''];
  }

  show(snapshot, paused) {
    const [state, word, level, sentence] = this.judge(snapshot);
    document.body.dataset.state = state;
    say(this.pill, paused ? word + ', held' : word);
    this.pill.className = 'pill ' + level;
    say(this.banner, sentence);
    this.banner.hidden = sentence === '';
    this.banner.className = 'banner ' + level + (state === 'restarted' ? ' news' : '');
  }
}

function levelOf(snapshot) {
  return !snapshot.ready ? 'bad' : snapshot.warnings.length ? 'warn' : 'good';
}

// What is read out when it changes must not be written when it does not.
export function say(place, text) {
  if (place.textContent !== text) {
    place.textContent = text;
  }
}
