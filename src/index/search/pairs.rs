//! Which neighbours there are among the bytes of texts, so that most texts need not be read to know that they do not
//! contain a word.

/// A set of pairs of bytes. Different pairs may look the same, so that it can say of a word that it is not contained,
/// never that it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pairs([u64; 8]);

impl Pairs {
    /// Adds the pairs of `text`.
    pub(super) fn add(&mut self, text: &str) {
        for (first, second) in text.bytes().zip(text.bytes().skip(1)) {
            let mixed = (u32::from(first) << 8 | u32::from(second)).wrapping_mul(0x9E37_79B1) >> 23;
            if let Some(bits) = self.0.get_mut(mixed as usize / 64) {
                *bits |= 1 << (mixed % 64);
            }
        }
    }

    /// Whether all of `others` are among them.
    pub(super) fn include(&self, others: &Self) -> bool {
        self.0.iter().zip(&others.0).all(|(own, other)| other & !own == 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(texts: &[&str]) -> Pairs {
        let mut pairs = Pairs::default();
        texts.iter().for_each(|text| pairs.add(text));
        pairs
    }

    #[test]
    fn words_without_pairs_may_be_anywhere() {
        for word in ["", "a"] {
            assert!(of(&[]).include(&of(&[word])));
        }
    }

    #[test]
    fn most_words_that_are_not_there_are_known_not_to_be() {
        let text = of(&[
            "restart_pod",
            "Restarts one pod of a deployment and waits for it.",
            "pods",
        ]);
        let others = [
            "certificate",
            "issue",
            "branch",
            "gateway",
            "zebra",
            "invoice",
            "calendar",
            "weather",
        ];
        assert!(others.iter().all(|word| !text.include(&of(&[word]))));
    }

    proptest! {
        #[test]
        fn a_word_of_a_text_is_never_missed(before in ".{0,20}", word in ".{0,9}", after in ".{0,20}") {
            let text = [before, word.clone(), after].concat();
            prop_assert!(of(&["other", &text]).include(&of(&[&word])));
        }
    }
}
