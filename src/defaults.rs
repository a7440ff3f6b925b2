//! Every constant with a meaning of its own, in one place.

use std::time::Duration;

/// Port of a container server that names none.
pub const CONTAINER_PORT: u16 = 8080;
/// Endpoint path of a container server that names none.
pub const CONTAINER_PATH: &str = "/mcp";

/// Between a member's prefix and the original name, as in `github__list_repos`.
pub const SEPARATOR: &str = "__";
/// Longest name the gateway advertises; many hosts cap names here.
pub const NAME_MAX: usize = 64;
/// Audiences for which what they see of a federation is kept ready; for others it is written anew each time.
pub const VIEWS_MAX: usize = 256;

/// Opening a connection to an upstream, or starting a process and its handshake.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Parting words to a server are given this long.
pub const PARTING_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a connection to a server is kept that no request is under way on. Node.js and uvicorn close such connections
/// after 5 s without a word, and a request that meets that is lost.
pub const IDLE_CONNECTION: Duration = Duration::from_secs(4);
/// The same where it is dear to open, and ends at a proxy: those wait for 60 s and more.
pub const IDLE_TLS_CONNECTION: Duration = Duration::from_secs(50);
/// Most such connections that a core keeps to one server.
pub const IDLE_CONNECTIONS_MAX: usize = 256;
/// Starting a process and its handshake: a package may have to be fetched first.
pub const PROCESS_START_TIMEOUT: Duration = Duration::from_secs(120);
/// A process that just started counts as ready after this long, whatever its upstreams do.
pub const READY_PATIENCE: Duration = Duration::from_secs(5);
/// Reading one list of an upstream.
pub const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// Reading one resource of an upstream.
pub const RESOURCE_TIMEOUT: Duration = Duration::from_secs(10);
/// Members that are asked at a time for a resource that nobody lists.
pub const FANOUT_AT_A_TIME: usize = 16;
/// A read of such a resource that was forwarded so often is not forwarded again.
pub const FANOUT_HOPS: u64 = 3;
/// Tools that are named to whom calls one by a name that several have.
pub const CANDIDATES_MAX: usize = 16;

/// A catalog is read again after this long.
pub const CATALOG_TTL: Duration = Duration::from_secs(60);
/// Calls whose headers a server refuses make its catalog be read again no sooner after the last time.
pub const REREAD_PAUSE: Duration = Duration::from_secs(1);
/// Lists are read again once their server has told of no change for this long.
pub const NOTICES_QUIET: Duration = Duration::from_millis(10);
/// Lists that cannot be read again are tried so often over the same connection before another one is made.
pub const REREADS_IN_PLACE: usize = 3;
/// A server that was found to be Legacy is asked again after this long whether it still is.
pub const ERA_VERDICT_TTL: Duration = Duration::from_secs(10 * 60);
/// Lists are read, for the first time, when the first try to listen has had its outcome, but no later than this.
pub const LISTEN_PATIENCE: Duration = Duration::from_millis(250);
/// A stream of changes that lasted this long was of use, and is opened again without a growing pause.
pub const STREAM_OF_USE: Duration = Duration::from_secs(10);
/// The shortest pause before a stream is opened again, whatever the server asks for.
pub const STREAM_RETRY_MIN: Duration = Duration::from_millis(100);
/// The rest of a call's broken stream is asked for so often in a row without an event coming.
pub const RESUMPTIONS_IN_VAIN: usize = 5;
/// The rest of a call's broken stream is asked for so often at all.
pub const RESUMPTIONS_MAX: usize = 100;
/// Most resources of one server that are subscribed to.
pub const SUBSCRIPTIONS_MAX: usize = 1_024;
/// Listens with one server that are held beside each other for what is subscribed to.
pub const LISTENS_HELD_MAX: usize = 4;
/// Longest URI of a resource that is subscribed to.
pub const SUBSCRIPTION_URI_MAX: usize = 2_048;
/// Changes of resources that are kept for those who pass them on; who does not keep up loses the oldest.
pub const NOTICES_KEPT: usize = 256;
/// A change of a resource that is heard on two connections within this time is told once.
pub const NOTICE_ECHO: Duration = Duration::from_millis(100);
/// A failed upstream is tried again after this long, doubling up to [`RETRY_MAX`].
pub const RETRY_MIN: Duration = Duration::from_secs(1);
/// Longest pause between two tries of a failed upstream.
pub const RETRY_MAX: Duration = Duration::from_secs(30);
/// The last good catalog of a failing upstream is served this long.
pub const STALE_FOR: Duration = Duration::from_secs(600);
/// Most pages of one list that are followed.
pub const LIST_PAGES_MAX: usize = 1_000;
/// Most items of one list that are kept.
pub const LIST_ITEMS_MAX: usize = 100_000;
/// The lists of a server have at most this many bytes together, as it writes them; what is more is left out.
pub const CATALOG_BYTES_MAX: usize = 64 << 20;
/// Most entries that are named as withheld; of more, the number is told.
pub const WITHHELD_MAX: usize = 100;

/// Connections of clients that are open at a time; further ones wait.
pub const CONNECTIONS_MAX: usize = 16_384;
/// Connections to the admin listener that are open at a time; further ones wait.
pub const ADMIN_CONNECTIONS_MAX: usize = 256;
/// The headers of a request must arrive within this time, and the next request of a connection begin.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// The body of a request must arrive within this time.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest request body taken from a client.
pub const REQUEST_BODY_MAX: usize = 4 << 20;
/// How much of a larger one is let go of before it is refused.
pub const DISCARDED_BODY_MAX: usize = 16 << 20;
/// For how long.
pub const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);
/// Largest response body taken from an upstream.
pub const RESPONSE_BODY_MAX: usize = 16 << 20;
/// Largest SSE event, and largest stdio line, taken from an upstream.
pub const EVENT_MAX: usize = 16 << 20;
/// Deepest nesting of JSON that is read.
pub const JSON_DEPTH_MAX: usize = 128;
/// Most bytes of request headers.
pub const HEADER_BYTES_MAX: usize = 64 << 10;
/// Most request headers.
pub const HEADER_COUNT_MAX: usize = 100;
/// Most arguments of one tool that are repeated as headers, so that they fit into [`HEADER_COUNT_MAX`] with all others.
pub const PARAM_HEADERS_MAX: usize = 64;
/// Deepest property of a schema whose argument is repeated as a header.
pub const PARAM_HEADER_DEPTH_MAX: usize = 32;

/// An answer that takes longer than this becomes an event stream, if the client takes one.
pub const STREAM_DELAY: Duration = Duration::from_secs(2);
/// A stream on which nothing happens says so after this long, so that nobody on the way closes it.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// A Legacy call whose client went away goes on for this long, and what it said can be asked for again.
pub const RESUME: Duration = Duration::from_secs(30);
/// A stream of notifications on which nothing happens says so after this long.
pub const HEARTBEAT: Duration = Duration::from_secs(30);
/// Messages of one call that may wait for its client to read; further ones are dropped.
pub const INTERMEDIATE_MAX: usize = 64;
/// Most bytes of them, a single larger one excepted.
pub const INTERMEDIATE_BYTES_MAX: usize = 1 << 20;
/// Messages of one call that are kept after they were read, for a client that asks again.
pub const RESUME_MESSAGES_MAX: usize = 64;
/// Legacy calls that go on without their clients, and streams that can be resumed, at a time; of more, clients that
/// go away lose theirs at once.
pub const RESUMABLE_MAX: usize = 4_096;
/// Most bytes that all streams together keep for clients that may come back to them. What finds no room is only read once.
pub const RESUMABLE_BYTES_MAX: usize = 64 << 20;
/// Streams of one session that can be resumed; of more, the one that was opened first is forgotten.
pub const RESUMABLE_PER_SESSION_MAX: usize = 64;
/// Streams of notifications that one session may have open; the one that was opened first ends when there are more.
pub const SESSION_STREAMS_MAX: usize = 4;
/// Messages to one session that may wait for it to read; further ones are refused.
pub const SESSION_QUEUE_MAX: usize = 64;
/// Streams of older clients, `GET` and HTTP+SSE, that a federation has open at a time; further ones are refused.
pub const STREAMS_MAX: usize = 8_192;
/// Listens of Modern clients that a federation has open at a time; further ones are refused.
pub const LISTENS_MAX: usize = 1_024;
/// Messages of one stream of the transport of 2024-11-05 that are worked on at a time; further ones are refused. As many
/// again are taken of those that tell something, and what they ask is refused.
pub const OLD_STREAM_MESSAGES_MAX: usize = 64;
/// Requests of one client on a channel that are at work at a time; further ones are refused, and what asks nothing is taken
/// on. Streams are counted as [`LISTENS_MAX`] says.
pub const CHANNEL_REQUESTS_MAX: usize = 128;
/// Messages that may wait for a client on a channel to read; answers wait for room.
pub const CHANNEL_QUEUE: usize = 64;
/// Requests at work may finish for this long after a client on the process's own pipes has ended its input, or the
/// process was asked to stop: hosts end a process by force that takes longer than two seconds.
pub const CHANNEL_GRACE: Duration = Duration::from_secs(1);
/// What is smaller than this is copied into each message that it is a part of, as a page of a list: it is not worth to
/// send a message in parts for it.
pub const SHARED_MIN: usize = 16 << 10;
/// So many bytes of answers are sent to a client before others have their turn.
pub const FRAME_MAX: usize = 256 << 10;
/// Most messages in one batch.
pub const BATCH_MAX: usize = 64;

/// A person, or a client's model, may take this long to answer what a server asks.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);
/// Most times that a server may ask for input before it answers one request.
pub const ROUNDS_MAX: usize = 8;
/// A server that wants to be asked again, and wants nothing else, is asked again after this long.
pub const ROUND_PAUSE: Duration = Duration::from_millis(250);
/// A server is asked again this often, with longer and longer pauses, whether a page was visited.
pub const PAGE_TRIES: u32 = 6;
/// Questions of one call that may wait to be put to its client; further ones are refused.
pub const QUESTIONS_MAX: usize = 16;
/// Questions that come within this time go to the client together.
pub const QUESTIONS_WINDOW: Duration = Duration::from_millis(10);
/// Calls that may wait for their clients' next rounds at a time; what further ones ask is refused.
pub const PARKED_MAX: usize = 1_024;
/// A principal takes at most this part, a fourth, of what there is a bounded number of for all: calls that wait for their
/// clients' next rounds, connections to one server that they have of their own, resources of a server that are subscribed
/// to, sessions that want to hear of logs or resources, streams, listens. Of more calls that wait, the one that has waited
/// longest gives way; more of the rest is refused. Of catalogs of callers' own more may be
/// had as long as nobody else needs the room.
/// Callers without a name, who are one caller together, leave that part free for others where there can be others.
pub const SHARE: usize = 4;
/// A server whose question was refused for lack of an answer may take this long to end its work by itself.
pub const REFUSED_GRACE: Duration = Duration::from_secs(1);
/// How long a client may continue a request from its state.
pub const STATE_TTL: Duration = Duration::from_secs(3_600);
/// Most used states that are remembered until they expire.
pub const USED_STATES_MAX: usize = 32_768;

/// A server that is waited for with a task of 2025-11-25 is asked for it no more often than this,
pub const TASK_POLL_MIN: Duration = Duration::from_millis(250);
/// no less often than this,
pub const TASK_POLL_MAX: Duration = Duration::from_secs(30);
/// and this often where it does not say how often it wants to be asked.
pub const TASK_POLL: Duration = Duration::from_secs(1);
/// Of all tasks of one server of which subscriptions want to hear and it does not tell, no more than one is asked for in
/// this time, after the first time.
pub const TASK_LOOK_PAUSE: Duration = Duration::from_millis(50);
/// A task is lost once its server said so many times in a row that it knows of none: one of several replicas may just not
/// be the one that has it.
pub const TASK_LOOKS_UNKNOWN: usize = 3;
/// What a federation has been without for so long is taken out of it, and not just written or read anew.
pub const TAKEN_OUT_AFTER: Duration = Duration::from_secs(3);
/// Whether it is without it is looked at so often.
pub const TAKEN_OUT_LOOK: Duration = Duration::from_millis(500);
/// A server says within this time how far a task is.
pub const TASK_POLL_TIMEOUT: Duration = Duration::from_secs(10);
/// So many times in a row a server may fail to say how far a task is, before it is given up.
pub const TASK_POLLS_IN_VAIN: usize = 5;
/// Most questions of one task that are put to a client which knows nothing of it.
pub const TASK_QUESTIONS_MAX: usize = 64;
/// Tasks that are kept in this process, since their clients can be asked something; more are begun without that.
pub const KEPT_TASKS_MAX: usize = 1_024;
/// Most bytes of the results of them; a task that comes to more has failed.
pub const KEPT_TASK_BYTES_MAX: usize = 64 << 20;
/// A task that is kept is cancelled after this long if it is not over, and forgotten.
pub const KEPT_TASK_TTL: Duration = Duration::from_secs(60 * 60);
/// Longest name that a server may give to a task.
pub const TASK_ID_MAX: usize = 1 << 10;
/// Most tasks that one subscription is told of.
pub const TASK_SUBSCRIPTIONS_MAX: usize = 256;
/// Changes of tasks that wait for the client of a subscription to read; a server waits with further ones.
pub const TASK_CHANGES_QUEUE: usize = 4;

/// What this process holds of a session is released when nothing was heard of it for this long.
pub const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
/// Most resources that a session, or a subscription, wants to hear of.
pub const SESSION_SUBSCRIPTIONS_MAX: usize = 256;
/// Most sessions that want to hear of logs or resources at a time; of one key a fourth.
pub const WISHES_MAX: usize = 16_384;
/// What sessions wished is looked through this often.
pub const WISHES_SWEEP: Duration = Duration::from_secs(60);
/// An update that no stream of its session takes is tried again after this long.
pub const UPDATE_PAUSE: Duration = Duration::from_secs(1);
/// How often an update is tried before it is given up.
pub const UPDATE_TRIES: u32 = 30;

/// How long a session of a Legacy client is valid. Widespread clients never open another one when theirs has expired.
pub const SESSION_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// Most bytes of a client's capabilities that a session keeps; proxies on the way bound the headers of a request.
pub const SESSION_CAPABILITIES_MAX: usize = 2 << 10;
/// Most bytes of a client's name that a session keeps.
pub const SESSION_CLIENT_NAME_MAX: usize = 128;
/// Longest session token that is looked at; what is written here is always shorter.
pub const SESSION_TOKEN_MAX: usize = 8 << 10;
/// Most ended sessions that are remembered until they expire.
pub const DENIED_SESSIONS_MAX: usize = 32_768;
/// Fewest bytes of a root key, and as many as are made.
pub const ROOT_KEY_BYTES: usize = 32;

/// Changes of the fleet within this window become one rebuild.
pub const COALESCE: Duration = Duration::from_millis(100);
/// A child process that was asked to stop is killed after this long.
pub const CHILD_STOP_TIMEOUT: Duration = Duration::from_secs(3);
/// Requests in flight may finish for this long after the process was asked to stop.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(25);

/// Questions of a server that may wait for its clients on one connection; further ones are refused. As many answers
/// may be on their way to it.
pub const LANE_QUESTIONS_MAX: usize = 16;
/// Sessions with one server over HTTP beside the one that reads its catalog.
pub const SESSION_LANES_MAX: usize = 1_024;
/// Processes of one server beside the one that reads its catalog.
pub const PROCESS_LANES_MAX: usize = 32;
/// A session with a server that carried no call for this long is ended.
pub const SESSION_LANE_IDLE: Duration = Duration::from_secs(30 * 60);
/// A process of a server that got no call for this long is stopped.
pub const PROCESS_LANE_IDLE: Duration = Duration::from_secs(5 * 60);
/// Unused sessions and processes are looked for this often.
pub const LANE_SWEEP: Duration = Duration::from_secs(30);

/// Messages that may wait for a child process to read; further callers wait for room.
pub const CHILD_QUEUE: usize = 64;
/// Answers to a child's own requests that may wait for it to read; further ones are dropped.
pub const CHILD_REPLIES_MAX: usize = 64;
/// Notifications of a child process that are kept until they are taken; of more, the oldest are dropped.
pub const CHILD_NOTIFICATIONS_MAX: usize = 1_024;
/// Bytes of notifications that are kept, a single larger one excepted.
pub const CHILD_NOTIFICATION_BYTES: usize = 1 << 20;
/// A line of a child's standard error is cut at this many bytes.
pub const CHILD_LOG_LINE_MAX: usize = 4 << 10;
/// The last lines of a child's standard error that are kept to explain its end.
pub const CHILD_LOG_LINES: usize = 20;
/// A child process that closed a pipe may take this long to end by itself, so that its exit code is told.
pub const CHILD_EXIT_GRACE: Duration = Duration::from_millis(500);
/// What a dead child had printed is read for this long; something outside its group may hold the pipe open.
pub const CHILD_DRAIN_TIMEOUT: Duration = Duration::from_millis(250);
/// Largest manifest file.
pub const MANIFEST_BYTES_MAX: usize = 4 << 20;
/// Most values (scalars, lists, maps; copies by alias counted) in one manifest file.
pub const MANIFEST_VALUES_MAX: usize = 200_000;
/// Most bytes of texts and keys in one manifest file, copies by alias counted.
pub const MANIFEST_TEXT_MAX: usize = 4 * MANIFEST_BYTES_MAX;
/// A container engine that has not answered after this long is taken for missing, and what it is told is given up.
pub const CONTAINER_ENGINE_TIMEOUT: Duration = Duration::from_secs(5);
/// How names of manifests end, in a directory of them.
pub const MANIFEST_EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];
/// Files are looked at this often where the system does not tell of their changes.
pub const FILE_POLL: Duration = Duration::from_secs(2);
/// Files that keep changing are read again after this long all the same.
pub const COALESCE_MAX: Duration = Duration::from_secs(1);

/// Results of `tool_search` for those who do not say how many they want.
pub const SEARCH_RESULTS: usize = 5;
/// Most results of `tool_search`, unless a federation says otherwise.
pub const SEARCH_RESULTS_MAX: usize = 100;
/// Most rows that are read of what one member's own search gave.
pub const SEARCH_ROWS_MAX: usize = 1_000;
/// The searches of members' own are waited for so long together,
pub const SEARCH_TIMEOUT: Duration = Duration::from_secs(4);
/// and so much less in each gateway that was itself asked by another one, so that what it found is in time.
pub const SEARCH_HOP_TIMEOUT: Duration = Duration::from_secs(1);
/// How a member's own search fails is logged as it changes, this often at most.
pub const SEARCH_FAILURE_PAUSE: Duration = Duration::from_secs(60);
/// Most bytes of a name that a member with a search of its own is asked for; names of tools should have 128 characters at
/// most (2025-11-25, tools).
pub const TOOL_NAME_MAX: usize = 256;
/// Gateways that hand a search on to each other.
pub const SEARCH_HOPS_MAX: u32 = 3;
/// Words of a query for tools that count.
pub const SEARCH_WORDS_MAX: usize = 32;
/// Bytes of such a word that count: as many as one machine word has bits.
pub const SEARCH_WORD_BYTES_MAX: usize = 64;
/// Most values of a JSON text that is written as TOON; a longer one stays JSON.
pub const TOON_VALUES_MAX: usize = 200_000;
/// Most digits of a number that is written without its exponent.
pub const TOON_DIGITS_MAX: usize = 1_024;
/// TOON is at most so many times as long as its JSON, about: exponents are a short way to write long numbers.
pub const TOON_GROWTH_MAX: usize = 4;

/// Longest frontmatter of a `SKILL.md`.
pub const FRONTMATTER_MAX: usize = 64 << 10;
/// Deepest nesting of a frontmatter; hosts follow no deeper one.
pub const FRONTMATTER_DEPTH_MAX: usize = 32;
/// Longest name of a skill (Agent Skills specification).
pub const SKILL_NAME_MAX: usize = 64;
/// Most characters of a skill's description (Agent Skills specification).
pub const SKILL_DESCRIPTION_MAX: usize = 1_024;
/// Most files of a skill that every host takes (Skills extension).
pub const SKILL_FILES_MAX: usize = 512;
/// Most bytes of a skill's files together that every host takes (Skills extension).
pub const SKILL_BYTES_MAX: u64 = 16 << 20;
/// Most files of all skills in a directory under `up`.
pub const SKILL_TREE_FILES_MAX: usize = 8_192;
/// Most bytes of all skills in a directory under `up`.
pub const SKILL_TREE_BYTES_MAX: u64 = 256 << 20;
/// Most directories that a skill's own is within.
pub const SKILL_DEPTH_MAX: usize = 64;

/// Most characters of one server's instructions in those of a federation.
pub const MEMBER_INSTRUCTIONS_MAX: usize = 2_048;
/// Most bytes of a federation's instructions; its own are never cut.
pub const INSTRUCTIONS_MAX: usize = 32 << 10;
/// Most bytes that a server may say of itself where it is served alone, in its info and in its instructions.
pub const INTRODUCTION_MAX: usize = 64 << 10;
/// Catalogs of callers' own, and connections for them, that a federation keeps at a time.
pub const OWN_CATALOGS_MAX: usize = 1_024;
/// Bytes of all of them together, about.
pub const OWN_CATALOGS_BYTES_MAX: usize = 256 << 20;
/// One that nobody has used for this long is let go of.
pub const OWN_CATALOG_IDLE: Duration = Duration::from_secs(600);
/// The same of one whose server does not take what the caller presents: it is tried again all the while.
pub const OWN_FAILURE_IDLE: Duration = Duration::from_secs(60);
/// That there is no room for a caller is logged this often at most.
pub const OWN_CATALOG_REFUSED_PAUSE: Duration = Duration::from_secs(60);
/// Bytes that merged lists of callers with catalogs of their own take in a federation, about, before they are made anew
/// each time.
pub const OWN_INDEXES_BYTES_MAX: usize = 128 << 20;
