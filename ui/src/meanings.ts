// What keys mean: the descriptions of the JSON Schema, put in by tools/bundle.py.
declare const MEANINGS: { [part: string]: { [key: string]: string } };

const anywhere = new Map<string, string>();
for (const part of Object.values(MEANINGS)) {
  for (const [key, meaning] of Object.entries(part)) if (!anywhere.has(key)) anywhere.set(key, meaning);
}

// `part` is a name of the schema, "kernels_row"; a key that is not in it may mean the same elsewhere.
export function meaning(part: string, key: string): string {
  const found = MEANINGS[part]?.[key] ?? anywhere.get(key);
  return found ? `${key}: ${found}` : key;
}
