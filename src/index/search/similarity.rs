//! How alike two texts are.

use crate::defaults;

/// A word that texts are compared with: for each byte, where it stands in the word, as bits.
///
/// The distance between a word and a text is found in one step a byte of the text, each for the whole word at once
/// (Myers, "A fast bit-vector algorithm for approximate string matching", 1999, for whole texts).
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    places: Box<[u64; 256]>,
    length: usize,
}

impl Pattern {
    /// Prepares a word of at least one and at most [`defaults::SEARCH_WORD_BYTES_MAX`] bytes; further ones are ignored.
    pub(super) fn new(word: &str) -> Self {
        let mut places = Box::new([0_u64; 256]);
        let bytes = word.as_bytes().iter().take(defaults::SEARCH_WORD_BYTES_MAX);
        let length = bytes.len();
        for (place, byte) in bytes.enumerate() {
            if let Some(bits) = places.get_mut(usize::from(*byte)) {
                *bits |= 1 << place;
            }
        }
        Self { places, length }
    }

    /// The similarity of the word and `text`, if it is more than 0.6: 1 less the number of bytes to insert, delete or
    /// replace between them, divided by the length of the longer.
    pub(super) fn similarity(&self, text: &str) -> Option<f64> {
        let longer = self.length.max(text.len());
        // More than 0.6 means: fewer than two edits for every five bytes.
        let is_similar = |edits: usize| edits.saturating_mul(5) < longer.saturating_mul(2);
        if !is_similar(self.length.abs_diff(text.len())) {
            return None;
        }
        let edits = Some(self.edits(text)).filter(|edits| is_similar(*edits))?;
        let count = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        Some(1.0 - count(edits) / count(longer))
    }

    /// Each bit of `more` and `less` says of a place in the word that the distance is one more, or one less, there than
    /// at the place before.
    fn edits(&self, text: &str) -> usize {
        let last = 1_u64 << self.length.saturating_sub(1).min(63);
        let (mut more, mut less) = (u64::MAX, 0_u64);
        let mut edits = self.length;
        for byte in text.bytes() {
            let same = self.places.get(usize::from(byte)).copied().unwrap_or(0);
            let across = (((same & more).wrapping_add(more)) ^ more) | same;
            let grows = less | !(across | more);
            let shrinks = more & across;
            edits += usize::from(grows & last != 0);
            edits -= usize::from(shrinks & last != 0);
            let grows = (grows << 1) | 1;
            let down = same | less;
            more = (shrinks << 1) | !(down | grows);
            less = grows & down;
        }
        edits
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn similarity(a: &str, b: &str) -> Option<f64> {
        Pattern::new(a).similarity(b)
    }

    #[test]
    fn exactly_six_tenths_are_not_enough() {
        assert_eq!(similarity("wiegh", "weigh"), None);
        assert_eq!(similarity("abcdefxxxx", "abcdefghij"), None);
        assert!((similarity("abcdefgxxx", "abcdefghij").unwrap() - 0.7).abs() < 1e-9);
        assert!((similarity("drian_node", "drain_node").unwrap() - 0.8).abs() < 1e-9);
    }

    #[test]
    fn bytes_are_what_is_counted() {
        assert!((similarity("préfix", "prefix").unwrap() - 5.0 / 7.0).abs() < 1e-9);
    }

    #[test]
    fn the_longest_words_are_compared_whole() {
        let word = "x".repeat(63) + "y";
        assert!((similarity(&word, &"x".repeat(64)).unwrap() - 63.0 / 64.0).abs() < 1e-9);
        assert!((similarity(&word, &word).unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(similarity(&word, &"x".repeat(1 << 20)), None);
    }

    proptest! {
        #[test]
        fn it_is_what_the_full_table_says(a in "[abc]{1,64}", b in "[abc]{0,80}") {
            let edits = strsim::generic_levenshtein(&a.as_bytes().to_vec(), &b.as_bytes().to_vec());
            prop_assert_eq!(Pattern::new(&a).edits(&b), edits);
        }

        #[test]
        fn it_is_the_same_both_ways(a in "[ab]{1,9}", b in "[ab]{1,9}") {
            prop_assert_eq!(similarity(&a, &b), similarity(&b, &a));
        }
    }
}
