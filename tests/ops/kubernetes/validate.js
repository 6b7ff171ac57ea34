// Holds objects against the schemas of the Kubernetes API, strictly: a field that a schema does not have is a mistake.
//
//   node validate.js FILE      FILE: a JSON array of objects. The node_modules of package.json have to lie beside this file
//
// Prints a line per mistake, "KIND/NAME PLACE: what is wrong". Exit status 0 when there is none, 1 when there is one.
//
// The packages have a validator per kind, generated from the OpenAPI document of Kubernetes and from the operator's resource
// definitions. As those do, it ignores what it does not know. It looks at every field that its schema has, though: a field
// that it does not look at is one that the API does not have.
import {readFileSync} from 'node:fs';
import process from 'node:process';

// The packages' generator takes a field of this name for documentation, and so their validator does not know it. The API has it.
const MISSED = ['PriorityClass/description'];

// `data`, which notes in `seen` the place of each value that somebody looks at.
function watch(data, place, seen) {
  seen.add(place);
  if (data === null || typeof data !== 'object') {
    return data;
  }
  return new Proxy(data, {
    get: (target, key) => {
      const own = Object.prototype.propertyIsEnumerable.call(target, key); // not the length of an array
      return own ? watch(target[key], `${place}/${String(key)}`, seen) : target[key];
    },
  });
}

// The places in `data` that nobody looked at; of each the outermost.
function unseen(data, place, seen) {
  if (!seen.has(place)) {
    return [place];
  }
  if (data === null || typeof data !== 'object') {
    return [];
  }
  return Object.keys(data).flatMap((key) => unseen(data[key], `${place}/${key}`, seen));
}

async function mistakes_of(object) {
  const of_operator = object.apiVersion.startsWith('monitoring.coreos.com/');
  const library = of_operator ? '@kubernetes-models/prometheus-operator' : 'kubernetes-models';
  let kind;
  try {
    kind = (await import(`${library}/${object.apiVersion}/${object.kind}`))[object.kind];
  } catch (error) {
    return [`: ${object.apiVersion} has no such kind (${error.message})`];
  }
  const seen = new Set();
  const found = [];
  try {
    kind.prototype.validate.call(watch(object, '', seen));
  } catch (error) {
    if (!error.errors) {
      throw error;
    }
    found.push(...error.errors.map((one) => `${one.instancePath}: ${one.message}`));
  }
  const unknown = unseen(object, '', seen).filter((place) => !MISSED.includes(object.kind + place));
  return [...found, ...unknown.map((place) => `${place}: the API has no such field`)];
}

async function main(file) {
  let right = true;
  for (const object of JSON.parse(readFileSync(file, 'utf8'))) {
    for (const mistake of await mistakes_of(object)) {
      console.log(`${object.kind}/${object.metadata.name} ${mistake}`);
      right = false;
    }
  }
  return right ? 0 : 1;
}

main(process.argv[2]).then((status) => process.exit(status));
