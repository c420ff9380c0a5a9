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
      const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals, useGrouping: false };
      return new Intl.NumberFormat(language, digits).format(value);
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

/** Language tag of the page. */
export const language = globalThis.document?.documentElement?.lang || "en";

const texts = translator(language, (await pageCatalogue()) ?? {});

/** The text itself: a constant that tr gets later, for the catalogues. */
export const mark = (text) => text;

/** The text in the page's language; {name} is replaced by values.name, numbers as the language writes them. */
export const tr = texts.tr;

/** The form of a text for a number: trn("{count} image", "{count} images", count, values). */
export const trn = texts.trn;

/** A number with this number of decimals, as toFixed writes it in English. */
export const fixed = texts.fixed;

/** A number as the language writes it; options as of Intl.NumberFormat. */
export const number = texts.number;
