// Texts of the page in its language. A message without a translation stays English.

/**
 * Create tr, trn, fixed and number for a language tag and its catalogue {plurals, messages}: the forms of a message by its
 * English text, and the index of a form by CLDR plural category.
 */
export function translator(language, { plurals = {}, messages = {} } = {}) {
  const format = new Intl.NumberFormat(language);
  const rules = new Intl.PluralRules(language);
  const english = new Intl.PluralRules("en");

  function fill(text, values) {
    return text.replace(/\{(\w+)\}/g, (place, name) => {
      const value = values[name];
      return value === undefined ? place : typeof value === "number" ? format.format(value) : value;
    });
  }

  return {
    tr: (text, values = {}) => fill(messages[text]?.[0] ?? text, values),
    trn(one, many, count, values = {}) {
      const forms = messages[one];
      const form = forms ? forms[plurals[rules.select(count)] ?? forms.length - 1] : english.select(count) === "one" ? one : many;
      return fill(form, { count, ...values });
    },
    fixed(value, decimals) {
      return new Intl.NumberFormat(language, { minimumFractionDigits: decimals, maximumFractionDigits: decimals, useGrouping: false }).format(value);
    },
    number: (value, options) => (options ? new Intl.NumberFormat(language, options) : format).format(value),
  };
}

/** The catalogue that the page names; null for English, without a page, or if it cannot be loaded. */
async function pageCatalogue() {
  const link = globalThis.document?.getElementById?.("catalogue");
  if (!link) return null;
  const response = await fetch(link.href).catch(() => null);
  return response?.ok ? response.json() : null;
}

export const language = globalThis.document?.documentElement?.lang || "en";

const texts = translator(language, (await pageCatalogue()) ?? {});

/**
 * In the page's language: tr(text, values), {name} is replaced by values.name, numbers as the language writes them; trn("{count} image",
 * "{count} images", count, values), the form for a number; fixed(value, decimals), as toFixed writes it in English; number(value, options of Intl.NumberFormat).
 */
export const { tr, trn, fixed, number } = texts;
