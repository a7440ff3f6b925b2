use tokio::time::{Instant, timeout};

use super::*;

fn text(line: &Line, reader: u64) -> Option<(u64, String)> {
    match line.take(reader) {
        Next::Message(number, message) => Some((number, String::from_utf8(message.joined().into_owned()).unwrap())),
        Next::Nothing | Next::Over => None,
    }
}

fn budget() -> Arc<Budget> {
    Arc::new(Budget::of(defaults::RESUMABLE_BYTES_MAX))
}

fn said(line: &Line, messages: &[&'static str]) {
    for message in messages {
        assert!(line.send(Bytes::from_static(message.as_bytes())));
    }
}

#[test]
fn messages_are_read_in_order_and_the_answer_ends_them() {
    let line = Line::new();
    let reader = line.attend(None).unwrap();
    assert_eq!(line.take(reader), Next::Nothing);
    said(&line, &["a", "b"]);
    assert_eq!(text(&line, reader), Some((1, "a".into())));
    line.finish(Content::Message(b"c".to_vec().into()));
    assert!(!line.send(Bytes::from_static(b"late")));
    assert_eq!(text(&line, reader), Some((2, "b".into())));
    assert_eq!(text(&line, reader), Some((3, "c".into())));
    assert_eq!(line.take(reader), Next::Over);
    assert_eq!(line.state().bytes, 0, "nothing is kept unasked");
}

#[test]
fn a_new_reader_takes_over_where_it_says() {
    let line = Line::new();
    line.keep(&budget());
    let first = line.attend(None).unwrap();
    said(&line, &["a", "b", "c"]);
    for _ in 0..3 {
        text(&line, first).unwrap();
    }
    let second = line.attend(Some(1)).unwrap();
    assert_eq!(line.take(first), Next::Over);
    assert_eq!(text(&line, second), Some((2, "b".into())));
    line.finish(Content::Message(b"d".to_vec().into()));
    let third = line.attend(Some(2)).unwrap();
    assert_eq!(text(&line, third), Some((3, "c".into())));
    assert_eq!(text(&line, third), Some((4, "d".into())));
    assert_eq!(line.take(third), Next::Over);
    let again = line.attend(Some(3)).unwrap();
    assert_eq!(
        text(&line, again),
        Some((4, "d".into())),
        "an answer can be asked for again"
    );
    assert_eq!(line.attend(Some(5)), None, "never said");
}

#[test]
fn what_nobody_reads_is_bounded_and_the_answer_always_fits() {
    let line = Line::new();
    line.keep(&budget());
    let taken = (0..1_000).filter(|_| line.send(Bytes::from_static(b"x"))).count();
    assert_eq!(taken, defaults::INTERMEDIATE_MAX);
    line.finish(Content::Message(b"answer".to_vec().into()));
    let reader = line.attend(None).unwrap();
    let read: Vec<_> = std::iter::from_fn(|| text(&line, reader)).collect();
    assert_eq!(read.len(), taken + 1);
    assert_eq!(read.last().unwrap().1, "answer");

    let line = Line::new();
    let large = Bytes::from(vec![b' '; defaults::INTERMEDIATE_BYTES_MAX]);
    assert!(line.send(large), "a single one is taken");
    assert!(!line.send(Bytes::from_static(b"x")));
}

#[test]
fn of_what_was_read_the_last_messages_are_kept() {
    let line = Line::new();
    line.keep(&budget());
    let reader = line.attend(None).unwrap();
    for _ in 0..200 {
        said(&line, &["x"]);
        text(&line, reader).unwrap();
    }
    assert_eq!(line.state().bytes, defaults::RESUME_MESSAGES_MAX);
    let again = line.attend(Some(0)).unwrap();
    let read: Vec<_> = std::iter::from_fn(|| text(&line, again)).collect();
    assert_eq!(read.first().unwrap().0, 200 - defaults::RESUME_MESSAGES_MAX as u64 + 1);
    assert_eq!(read.last().unwrap().0, 200);
}

#[tokio::test]
async fn a_line_is_deserted_when_nobody_came_back_in_time() {
    let (line, patience) = (Line::new(), Duration::from_millis(100));
    let first = line.attend(None).unwrap();
    assert!(timeout(patience * 2, line.deserted(patience)).await.is_err());
    line.leave(first);
    let returns = async {
        sleep(patience / 2).await;
        let second = line.attend(None).unwrap();
        sleep(patience).await;
        line.leave(first);
        sleep(patience).await;
        line.leave(second);
        Instant::now()
    };
    let (left, ()) = tokio::join!(returns, line.deserted(patience));
    assert!(
        left.elapsed() >= patience,
        "a reader that was replaced is none that leaves"
    );
}

#[test]
fn a_line_that_is_cut_carries_nothing() {
    let line = Line::new();
    line.keep(&budget());
    let reader = line.attend(None).unwrap();
    said(&line, &["a"]);
    line.cut();
    assert_eq!(line.take(reader), Next::Over);
    line.finish(Content::Message(b"late".to_vec().into()));
    assert_eq!((line.take(reader), line.state().bytes), (Next::Over, 0));
}

#[test]
fn what_finds_no_room_among_all_lines_is_only_read_once() {
    let budget = Arc::new(Budget::of(4));
    let lines = [Line::new(), Line::new()];
    let readers = lines.each_ref().map(|line| {
        line.keep(&budget);
        line.attend(None).unwrap()
    });
    said(&lines[0], &["aaa"]);
    assert_eq!(text(&lines[0], readers[0]), Some((1, "aaa".into())));
    said(&lines[1], &["bb", "cc"]);
    assert!(lines[0].is_kept() && !lines[1].is_kept());
    assert_eq!(
        text(&lines[1], readers[1]),
        Some((1, "bb".into())),
        "who reads now gets it"
    );
    assert_eq!(lines[1].state().bytes, 2, "and nothing stays of it");
    lines[1].leave(readers[1]);
    assert_eq!(lines[1].state().bytes, 0, "nor of what will never be read");
    assert!(!lines[1].send(Bytes::from_static(b"d")));
    lines[1].finish(Content::Message(b"answer".to_vec().into()));
    assert_eq!(lines[1].state().bytes, 0);
    // What was read makes room for what is said next on the same line.
    said(&lines[0], &["dddd"]);
    assert_eq!(text(&lines[0], readers[0]), Some((2, "dddd".into())));
    assert!(lines[0].is_kept());
    lines[0].let_go();
    assert_eq!(lines[0].state().bytes, 0);
    lines[1].keep(&budget);
    assert!(lines[1].is_kept());
}

#[test]
fn room_is_given_back_by_whatever_ends_a_line() {
    let budget = Arc::new(Budget::of(3));
    for end in [Line::cut, Line::let_go, |line: &Line| drop(line.clone())] {
        let line = Line::new();
        line.keep(&budget);
        said(&line, &["aaa"]);
        assert!(line.is_kept(), "there was room");
        end(&line);
    }
}
