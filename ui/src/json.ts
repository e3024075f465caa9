// JSON as the server writes it, and safe ways into it: a key that is missing reads as nothing.
export type Json = null | boolean | number | string | Json[] | Fields;
export type Fields = { [key: string]: Json };

export function isFields(value: Json | undefined): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function fields(value: Json | undefined): Fields {
  return isFields(value) ? value : {};
}

export function list(value: Json | undefined): Json[] {
  return Array.isArray(value) ? value : [];
}

export function rowsOf(value: Json | undefined): Fields[] {
  return list(value).filter(isFields);
}

export function numbers(value: Json | undefined): number[] {
  return list(value).map((n) => (typeof n === "number" ? n : 0));
}

export function num(value: Json | undefined): number | null {
  return typeof value === "number" ? value : null;
}

export function text(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

// Why a value is absent.
export function reason(of: Fields, key: string): string {
  return text(of[`${key}_reason`]);
}
