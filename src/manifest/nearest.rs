//! The known name that somebody most likely meant.

/// The candidate nearest to `name`, if one is near enough to be worth a question.
pub(super) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let (distance, candidate) = candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&name, &candidate.to_lowercase()), candidate))
        .min()?;
    let length = name.chars().count().max(candidate.chars().count());
    (distance <= length.div_ceil(3)).then_some(candidate)
}

/// `; did you mean `x`?` for the nearest candidate, else nothing.
pub(super) fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, candidates).map_or_else(String::new, |candidate| format!("; did you mean `{candidate}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_recognised_and_a_different_word_is_not() {
        let known = ["url", "headers", "imagePullPolicy"];
        assert_eq!(nearest("uri", known), Some("url"));
        assert_eq!(nearest("header", known), Some("headers"));
        assert_eq!(nearest("imagepullpolicy", known), Some("imagePullPolicy"));
        assert_eq!(nearest("timeout", known), None);
        assert_eq!(nearest("x", []), None);
    }
}
