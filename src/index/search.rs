//! What `tool_search` finds: tools scored against the words of a query.
//!
//! A tool is prepared once, when the index is built; a query is scored against all of them without an allocation for
//! any.

use std::cmp::Ordering;

use crate::defaults;

/// A tool that can be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searchable {
    name: Box<str>,
    /// Empty where the name is in lower case already.
    lower_name: Box<str>,
    keywords: Box<[Box<str>]>,
    description: Box<str>,
}

/// What is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    text: String,
    words: Vec<Box<str>>,
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
        Self {
            name: name.into(),
            lower_name: if lower_name == name {
                "".into()
            } else {
                lower_name.into()
            },
            keywords: keywords
                .into_iter()
                .map(|keyword| keyword.to_lowercase().into())
                .collect(),
            description: description.to_lowercase().into(),
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
        let words = text.split_whitespace().take(defaults::SEARCH_WORDS_MAX);
        Self {
            words: words
                .map(|word| {
                    let end = word.floor_char_boundary(defaults::SEARCH_WORD_BYTES_MAX);
                    word.get(..end).unwrap_or(word).to_lowercase().into()
                })
                .collect(),
            text: text.trim().to_lowercase(),
        }
    }

    /// Whether it looks for nothing, and so finds everything.
    pub fn is_blank(&self) -> bool {
        self.words.is_empty()
    }

    /// How well `tool` fits, or `None` if it does not: 1 for its whole name, else the mean over the words.
    pub fn score(&self, tool: &Searchable) -> Option<f64> {
        self.score_with(tool, &mut Similarity::default())
    }

    fn score_with(&self, tool: &Searchable, similarity: &mut Similarity) -> Option<f64> {
        if self.is_blank() || tool.lower_name() == self.text {
            return Some(1.0);
        }
        let sum: f64 = self.words.iter().map(|word| word_score(word, tool, similarity)).sum();
        let mean = sum / f64::from(u32::try_from(self.words.len()).unwrap_or(u32::MAX));
        (sum > 0.0).then_some(mean)
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
    let mut similarity = Similarity::default();
    let hits = tools.into_iter().filter_map(|tool| {
        let score = query.score_with(tool, &mut similarity)?;
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

/// The highest of a word's scores. Whoever equals a part also contains it, so that most tools are done with after a
/// look into each of their texts.
fn word_score(word: &str, tool: &Searchable, similarity: &mut Similarity) -> f64 {
    let name = tool.lower_name();
    let in_name = name.contains(word);
    if in_name {
        if name.starts_with(word) {
            return 0.95;
        }
        let tokens = || name.split(['_', '-']);
        if tokens().any(|token| token == word) {
            return 0.92;
        }
        if tokens().any(|token| token.starts_with(word)) {
            return 0.90;
        }
    }
    let mut in_keyword = false;
    for keyword in tool.keywords.iter().filter(|keyword| keyword.contains(word)) {
        in_keyword = true;
        if &**keyword == word || keyword.split_whitespace().any(|part| part == word) {
            return 0.85;
        }
    }
    if in_name {
        return 0.80;
    }
    if in_keyword {
        return 0.70;
    }
    if tool.description.contains(word) {
        let words = || tool.description.split_whitespace();
        let equal = words().any(|other| other.trim_matches(PUNCTUATION) == word);
        return if equal { 0.60 } else { 0.50 };
    }
    let keywords = tool.keywords.iter();
    let by_keyword = keywords
        .filter_map(|keyword| similarity.above_threshold(word, keyword))
        .fold(0.0, f64::max);
    let by_name = similarity.above_threshold(word, name).unwrap_or(0.0);
    if by_name > 0.0 { by_name * 0.7 } else { by_keyword * 0.6 }
}

/// Around the words of descriptions.
const PUNCTUATION: [char; 14] = ['.', ',', ';', ':', '!', '?', '(', ')', '[', ']', '{', '}', '"', '\''];

/// How alike two texts are: 1 less the number of bytes to insert, delete or replace between them, divided by the length
/// of the longer.
#[derive(Debug, Default)]
struct Similarity {
    /// Distances between the beginnings of the second text and the current beginning of the first.
    row: Vec<usize>,
}

impl Similarity {
    /// The similarity of `a` and `b`, if it is more than 0.6.
    fn above_threshold(&mut self, a: &str, b: &str) -> Option<f64> {
        let (a, b) = (a.as_bytes(), b.as_bytes());
        let longer = a.len().max(b.len());
        // More than 0.6 means: fewer than two edits for every five bytes.
        let is_above = |edits: usize| edits.saturating_mul(5) < longer.saturating_mul(2);
        if !is_above(a.len().abs_diff(b.len())) {
            return None;
        }
        self.row.clear();
        self.row.extend(0..=b.len());
        for (i, x) in a.iter().enumerate() {
            let mut left = i + 1;
            let mut diagonal = i;
            let mut least = left;
            if let Some(first) = self.row.first_mut() {
                *first = left;
            }
            for (y, cell) in b.iter().zip(self.row.iter_mut().skip(1)) {
                let replaced = diagonal + usize::from(x != y);
                diagonal = *cell;
                left = replaced.min(left + 1).min(diagonal + 1);
                *cell = left;
                least = least.min(left);
            }
            if !is_above(least) {
                return None;
            }
        }
        let edits = self.row.last().copied().filter(|edits| is_above(*edits))?;
        let share = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        Some(1.0 - share(edits) / share(longer))
    }
}

#[cfg(test)]
mod tests;
