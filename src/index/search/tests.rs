use proptest::prelude::*;

use super::*;

fn tools() -> Vec<Searchable> {
    vec![
        Searchable::new(
            "rotate_cert",
            "Rotate the TLS certificate of a gateway.",
            ["tls", "renew key"],
        ),
        Searchable::new("list_certs", "Show every certificate.", ["tls"]),
        Searchable::new("pods__restart", "Restart one pod.", ["pods", "remote"]),
        Searchable::new(
            "drain_node",
            "Evict pods, then cordon the node.",
            ["maintenance window"],
        ),
        Searchable::new("node-taint", "Add a taint.", []),
    ]
}

fn shop() -> Vec<Searchable> {
    vec![
        Searchable::new(
            "ship__create_order",
            "Create a purchase order in the depot.",
            ["ship", "remote", "buy"],
        ),
        Searchable::new("ship__cancel_order", "Cancel an order.", ["ship", "remote"]),
        Searchable::new("depot-stock", "Count units on the shelf.", ["inventory level"]),
        Searchable::new("weigh", "Weigh a parcel (grams).", []),
        Searchable::new("Reorder", "Place the same basket again.", ["repeat purchase"]),
    ]
}

#[track_caller]
fn finds(tools: &[Searchable], query: &str, expected: &[(&str, f64)]) {
    let hits = best(tools, &Query::parse(query), 100);
    let names: Vec<&str> = hits.iter().map(|hit| hit.tool.name()).collect();
    assert_eq!(
        names,
        expected.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        "{query:?} {hits:?}"
    );
    for (hit, (name, score)) in hits.iter().zip(expected) {
        assert!((hit.score - score).abs() < 1e-9, "{query:?} {name} {}", hit.score);
    }
}

#[test]
fn the_whole_name_in_any_case_is_a_perfect_hit() {
    finds(&tools(), "ROTATE_CERT", &[("rotate_cert", 1.0)]);
    finds(&shop(), " reorder ", &[("Reorder", 1.0)]);
    let spaced = [Searchable::new("Two Words", "", [])];
    finds(&spaced, "two words", &[("Two Words", 1.0)]);
}

#[test]
fn names_count_by_how_a_word_stands_in_them() {
    finds(&tools(), "rotate", &[("rotate_cert", 0.95)]);
    finds(&tools(), "cert", &[("rotate_cert", 0.92), ("list_certs", 0.90)]);
    finds(&tools(), "node", &[("node-taint", 0.95), ("drain_node", 0.92)]);
    finds(&tools(), "pods", &[("pods__restart", 0.95), ("drain_node", 0.60)]);
    finds(&tools(), "otate", &[("rotate_cert", 0.80)]);
    finds(&shop(), "stock", &[("depot-stock", 0.92)]);
}

#[test]
fn keywords_count_whole_in_part_and_as_phrases() {
    finds(&tools(), "tls", &[("list_certs", 0.85), ("rotate_cert", 0.85)]);
    finds(&tools(), "window", &[("drain_node", 0.85)]);
    finds(&tools(), "mainten", &[("drain_node", 0.70)]);
    finds(&shop(), "buy", &[("ship__create_order", 0.85)]);
    finds(&shop(), "purchase", &[("Reorder", 0.85), ("ship__create_order", 0.60)]);
    finds(
        &shop(),
        "ship",
        &[("ship__cancel_order", 0.95), ("ship__create_order", 0.95)],
    );
}

#[test]
fn descriptions_count_by_word_without_punctuation_and_in_part() {
    finds(&tools(), "certificate", &[("list_certs", 0.60), ("rotate_cert", 0.60)]);
    finds(&tools(), "evi", &[("drain_node", 0.50)]);
    finds(&shop(), "grams", &[("weigh", 0.60)]);
    finds(&shop(), "gram", &[("weigh", 0.50)]);
}

#[test]
fn what_is_nearly_a_name_or_keyword_is_found_when_nothing_else_is() {
    finds(&tools(), "drian_node", &[("drain_node", 0.8 * 0.7)]);
    let keyword = [Searchable::new("x", "", ["inventory"])];
    finds(&keyword, "inventry", &[("x", (1.0 - 1.0 / 9.0) * 0.6)]);
    let both = [Searchable::new("inventori", "", ["inventory"])];
    finds(&both, "inventoru", &[("inventori", (1.0 - 1.0 / 9.0) * 0.7)]);
}

#[test]
fn exactly_six_tenths_are_not_similar_enough() {
    finds(&shop(), "wiegh", &[]);
    let name = [Searchable::new("abcdefghij", "", [])];
    finds(&name, "abcdefxxxx", &[]);
    finds(&name, "abcdefgxxx", &[("abcdefghij", 0.7 * 0.7)]);
}

#[test]
fn several_words_give_their_mean_and_misses_count() {
    finds(&tools(), "rotate zebra", &[("rotate_cert", 0.475)]);
    finds(
        &tools(),
        "rotate  CERT",
        &[("rotate_cert", 0.935), ("list_certs", 0.45)],
    );
    finds(&tools(), "zebra zzz", &[]);
}

#[test]
fn a_blank_query_finds_everything_in_order_of_names() {
    let tools = tools();
    let hits = best(&tools, &Query::parse(" \t\n "), 3);
    let found: Vec<(&str, f64)> = hits.iter().map(|hit| (hit.tool.name(), hit.score)).collect();
    assert_eq!(found, [("drain_node", 1.0), ("list_certs", 1.0), ("node-taint", 1.0)]);
}

#[test]
fn limits_have_a_default_and_a_cap() {
    let limits = Limits::default();
    for (asked, given) in [
        (None, 5),
        (Some(0), 5),
        (Some(-4), 5),
        (Some(i64::MIN), 5),
        (Some(1), 1),
        (Some(100), 100),
        (Some(101), 100),
        (Some(i64::MAX), 100),
    ] {
        assert_eq!(limits.of(asked), given, "{asked:?}");
    }
    assert_eq!(Limits { default: 20, cap: 10 }.of(None), 10);
    let many: Vec<Searchable> = (0..12).map(|i| Searchable::new(&format!("x{i:02}"), "", [])).collect();
    assert_eq!(best(&many, &Query::parse("x"), limits.of(None)).len(), 5);
    assert!(best(&many, &Query::parse("x"), 0).is_empty());
}

#[test]
fn long_queries_are_cut_and_cost_little() {
    let query = Query::parse(&"é".repeat(1 << 20));
    let longest = query.words.iter().map(|word| word.text.len()).max();
    assert_eq!(longest, Some(defaults::SEARCH_WORD_BYTES_MAX));
    let query = Query::parse(&"w ".repeat(1 << 20));
    assert_eq!(query.words.len(), defaults::SEARCH_WORDS_MAX);
}

#[test]
fn letters_of_all_scripts_are_compared_in_lower_case() {
    let tools = [Searchable::new("Überprüfen", "ПРОВЕРКА связи", ["Ärger"])];
    finds(&tools, "ÜBER", &[("Überprüfen", 0.95)]);
    finds(&tools, "проверка", &[("Überprüfen", 0.60)]);
    finds(&tools, "ärger", &[("Überprüfen", 0.85)]);
}

/// The table of scores, as it is written down.
fn by_the_rules(name: &str, description: &str, keywords: &[String], query: &str) -> f64 {
    let (name, query) = (name.to_lowercase(), query.trim());
    if query.is_empty() || name == query {
        return 1.0;
    }
    let alike = |a: &str, b: &str| {
        let edits = strsim::generic_levenshtein(&a.as_bytes().to_vec(), &b.as_bytes().to_vec());
        let longer = a.len().max(b.len());
        if edits * 10 < longer * 4 {
            1.0 - edits as f64 / longer as f64
        } else {
            0.0
        }
    };
    let words: Vec<&str> = query.split_whitespace().collect();
    let score = |word: &str| {
        let mut scores = vec![0.0];
        let mut when = |holds: bool, score: f64| scores.push(if holds { score } else { 0.0 });
        let tokens: Vec<&str> = name.split(['_', '-']).filter(|token| !token.is_empty()).collect();
        when(name.starts_with(word), 0.95);
        when(tokens.contains(&word), 0.92);
        when(tokens.iter().any(|token| token.starts_with(word)), 0.90);
        when(name.contains(word), 0.80);
        for keyword in keywords {
            when(keyword == word || keyword.split(' ').any(|part| part == word), 0.85);
            when(keyword.contains(word), 0.70);
        }
        let in_description = |other: &str| other.trim_matches(PUNCTUATION) == word;
        when(description.split_whitespace().any(in_description), 0.60);
        when(description.contains(word), 0.50);
        let best = scores.into_iter().fold(0.0, f64::max);
        if best > 0.0 {
            return best;
        }
        let by_name = alike(word, &name) * 0.7;
        if by_name > 0.0 {
            return by_name;
        }
        keywords
            .iter()
            .map(|keyword| alike(word, keyword) * 0.6)
            .fold(0.0, f64::max)
    };
    words.iter().map(|word| score(word)).sum::<f64>() / words.len() as f64
}

proptest! {
    #[test]
    fn scores_are_those_of_the_rules_read_word_by_word(
        name in "[abAB_-]{1,6}",
        description in "[ab.,( ]{0,14}",
        keywords in proptest::collection::vec("[ab ]{0,5}", 0..3),
        query in "[ab.,_ ]{1,7}",
    ) {
        let tool = Searchable::new(&name, &description, keywords.iter().map(String::as_str));
        let found = Query::parse(&query).score(&tool);
        let expected = by_the_rules(&name, &description, &keywords, &query);
        prop_assert!((found.unwrap_or(0.0) - expected).abs() < 1e-9, "{found:?} {expected}");
    }

    #[test]
    fn results_are_the_first_of_all_in_order_whatever_order_the_tools_come_in(
        names in proptest::collection::btree_set("[abx_]{1,6}", 0..20),
        query in "[abx_ ]{0,6}",
        limit in 0..8_usize,
        turn in 0..20_usize,
    ) {
        let mut tools: Vec<Searchable> = names.iter().map(|name| Searchable::new(name, "a bx.", ["ab"])).collect();
        let query = Query::parse(&query);
        let mut all: Vec<(f64, String)> = tools
            .iter()
            .filter_map(|tool| Some((query.score(tool)?, tool.name().to_owned())))
            .collect();
        all.sort_by(|a, b| order((a.0, &a.1), (b.0, &b.1)));
        all.truncate(limit);
        let middle = turn.min(tools.len());
        tools.rotate_left(middle);
        let found: Vec<(f64, String)> = best(&tools, &query, limit)
            .iter()
            .map(|hit| (hit.score, hit.tool.name().to_owned()))
            .collect();
        prop_assert!(found.iter().all(|(score, _)| *score > 0.0 && *score <= 1.0));
        prop_assert_eq!(found, all);
    }
}
