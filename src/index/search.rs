//! What `tool_search` finds: tools scored against the words of a query.
//!
//! A tool is prepared once, when the index is built; a query is scored against all of them without an allocation for
//! any.

mod pairs;
mod similarity;

use std::cmp::Ordering;

use crate::defaults;
use pairs::Pairs;
use similarity::Pattern;

/// A tool that can be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searchable {
    name: Box<str>,
    /// Empty where the name is in lower case already.
    lower_name: Box<str>,
    keywords: Box<[Box<str>]>,
    description: Box<str>,
    /// Those of all its texts.
    pairs: Pairs,
}

/// What is looked for.
#[derive(Clone, Debug)]
pub struct Query {
    text: String,
    words: Vec<Word>,
}

#[derive(Clone, Debug)]
struct Word {
    text: Box<str>,
    pairs: Pairs,
    pattern: Pattern,
}

/// A tool that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit<'t> {
    /// The tool.
    pub tool: &'t Searchable,
    /// How well it fits: more than 0, at most 1.
    pub score: f64,
}

/// How many results a federation gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// To those who do not say.
    pub default: usize,
    /// To those who ask for more.
    pub cap: usize,
}

impl Searchable {
    /// Prepares the tool that clients know as `name`.
    pub fn new<'k>(name: &str, description: &str, keywords: impl IntoIterator<Item = &'k str>) -> Self {
        let lower_name = name.to_lowercase();
        let description = description.to_lowercase();
        let keywords: Box<[Box<str>]> = keywords
            .into_iter()
            .map(|keyword| keyword.to_lowercase().into())
            .collect();
        let mut pairs = Pairs::default();
        let texts = keywords.iter().map(AsRef::as_ref).chain([&*lower_name, &*description]);
        texts.for_each(|text| pairs.add(text));
        Self {
            name: name.into(),
            lower_name: if lower_name == name {
                "".into()
            } else {
                lower_name.into()
            },
            keywords,
            description: description.into(),
            pairs,
        }
    }

    /// The name under which clients know it.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn lower_name(&self) -> &str {
        if self.lower_name.is_empty() {
            &self.name
        } else {
            &self.lower_name
        }
    }
}

impl Query {
    /// Reads a query. Of very long ones the first [`defaults::SEARCH_WORDS_MAX`] words count, and of each word its
    /// first [`defaults::SEARCH_WORD_BYTES_MAX`] bytes.
    pub fn parse(text: &str) -> Self {
        let text = text.trim().to_lowercase();
        let words = text.split_whitespace().take(defaults::SEARCH_WORDS_MAX);
        Self {
            words: words.map(Word::new).collect(),
            text,
        }
    }

    /// Whether it looks for nothing, and so finds everything.
    pub fn is_blank(&self) -> bool {
        self.words.is_empty()
    }

    /// How well `tool` fits, or `None` if it does not: 1 for its whole name, else the mean over the words.
    pub fn score(&self, tool: &Searchable) -> Option<f64> {
        if self.is_blank() || tool.lower_name() == self.text {
            return Some(1.0);
        }
        let sum: f64 = self.words.iter().map(|word| word.score(tool)).sum();
        let mean = sum / f64::from(u32::try_from(self.words.len()).unwrap_or(u32::MAX));
        (sum > 0.0).then_some(mean)
    }
}

impl Word {
    fn new(word: &str) -> Self {
        let end = word.floor_char_boundary(defaults::SEARCH_WORD_BYTES_MAX);
        let text = word.get(..end).unwrap_or(word);
        let mut pairs = Pairs::default();
        pairs.add(text);
        Self {
            text: text.into(),
            pairs,
            pattern: Pattern::new(text),
        }
    }

    /// The highest of its scores.
    fn score(&self, tool: &Searchable) -> f64 {
        let contained = if tool.pairs.include(&self.pairs) {
            self.score_contained(tool)
        } else {
            None
        };
        contained.unwrap_or_else(|| self.score_similar(tool))
    }

    /// What is more than similar: whatever equals a part of a text is also contained in it.
    fn score_contained(&self, tool: &Searchable) -> Option<f64> {
        let word = &*self.text;
        let name = tool.lower_name();
        let in_name = name.contains(word);
        if in_name {
            if name.starts_with(word) {
                return Some(0.95);
            }
            let tokens = || name.split(['_', '-']);
            if tokens().any(|token| token == word) {
                return Some(0.92);
            }
            if tokens().any(|token| token.starts_with(word)) {
                return Some(0.90);
            }
        }
        let mut in_keyword = false;
        for keyword in tool.keywords.iter().filter(|keyword| keyword.contains(word)) {
            in_keyword = true;
            if &**keyword == word || keyword.split_whitespace().any(|part| part == word) {
                return Some(0.85);
            }
        }
        if in_name {
            return Some(0.80);
        }
        if in_keyword {
            return Some(0.70);
        }
        let mut in_description = tool.description.match_indices(word).peekable();
        in_description.peek()?;
        let stands_alone = |(at, _)| stands_alone(&tool.description, at, word);
        Some(if in_description.any(stands_alone) { 0.60 } else { 0.50 })
    }

    fn score_similar(&self, tool: &Searchable) -> f64 {
        if let Some(similarity) = self.pattern.similarity(tool.lower_name()) {
            return similarity * 0.7;
        }
        let keywords = tool.keywords.iter();
        let best = keywords.filter_map(|keyword| self.pattern.similarity(keyword));
        best.fold(0.0, f64::max) * 0.6
    }
}

impl Limits {
    /// How many results someone gets who asks for `asked`; nothing, zero and less mean the default.
    pub fn of(self, asked: Option<i64>) -> usize {
        match asked {
            Some(asked) if asked > 0 => usize::try_from(asked).unwrap_or(usize::MAX),
            _ => self.default,
        }
        .min(self.cap)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            default: defaults::SEARCH_RESULTS,
            cap: defaults::SEARCH_RESULTS_MAX,
        }
    }
}

/// The best `limit` of `tools`, in the order of results.
pub fn best<'t>(tools: impl IntoIterator<Item = &'t Searchable>, query: &Query, limit: usize) -> Vec<Hit<'t>> {
    let hits = tools.into_iter().filter_map(|tool| {
        let score = query.score(tool)?;
        Some(Hit { tool, score })
    });
    let mut hits: Vec<Hit<'t>> = hits.collect();
    let order = |a: &Hit<'t>, b: &Hit<'t>| order((a.score, a.tool.name()), (b.score, b.tool.name()));
    if limit > 0 && limit < hits.len() {
        hits.select_nth_unstable_by(limit, order);
    }
    hits.truncate(limit);
    hits.sort_unstable_by(order);
    hits
}

/// The order of results, each a score and a name: higher scores first, equal ones by name, bytewise.
pub fn order(a: (f64, &str), b: (f64, &str)) -> Ordering {
    b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1))
}

/// Whether `word`, found in `text` at this byte, is a whole word there but for the punctuation around it.
fn stands_alone(text: &str, at: usize, word: &str) -> bool {
    if word.starts_with(PUNCTUATION) || word.ends_with(PUNCTUATION) {
        return false;
    }
    let before = text.get(..at).unwrap_or_default().trim_end_matches(PUNCTUATION);
    let after = text.get(at + word.len()..).unwrap_or_default();
    let after = after.trim_start_matches(PUNCTUATION);
    before.chars().next_back().is_none_or(char::is_whitespace) && after.chars().next().is_none_or(char::is_whitespace)
}

/// Around the words of descriptions.
const PUNCTUATION: [char; 14] = ['.', ',', ';', ':', '!', '?', '(', ')', '[', ']', '{', '}', '"', '\''];

#[cfg(test)]
mod tests;
