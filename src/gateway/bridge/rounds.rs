//! Calls to Legacy servers that a Modern client comes back to: the call waits while the client is given a result that
//! asks.

use super::asker::Asker;
use super::right;
use crate::defaults;
use crate::gateway::answer::Answer;
use crate::gateway::conversations::conversation::Conversation;
use crate::gateway::conversations::state::Continued;
use crate::gateway::session::SessionId;
use crate::upstream::{Error, Reply};

/// Begins the call of `asker`; nothing is sent before it is gone on with.
pub(super) fn begin(asker: Asker<'_>) -> Conversation {
    Conversation::begin(|ear| asker.hop.own_call(asker.features, ear))
}

/// Goes on until the server answers, or asks what the client has to be asked.
pub(super) async fn go_on(mut conversation: Conversation, asker: Asker<'_>) -> Answer {
    if !conversation.is_asking()
        && let Some(reply) = until_asked(&mut conversation, asker).await
    {
        return asker.arrived(&reply, conversation.lacks());
    }
    park(conversation, asker).await
}

/// Goes on until the server answers. `None`: it asked before, and the client has to be asked.
pub(super) async fn until_asked(conversation: &mut Conversation, asker: Asker<'_>) -> Option<Result<Reply, Error>> {
    conversation.relay_to(asker.relay());
    conversation.until_questions(asker.features).await
}

/// Goes on with what the client answered, a JSON object.
pub(super) async fn resume(mut conversation: Conversation, asker: Asker<'_>, responses: Option<&str>) -> Answer {
    conversation.take_answers(responses);
    go_on(conversation, asker).await
}

/// Lets the call wait, and asks the client. Where too many wait, the questions are refused and it goes on.
async fn park(mut conversation: Conversation, asker: Asker<'_>) -> Answer {
    let Some(name) = SessionId::random() else {
        return asker.hop.failed(&"no random bytes");
    };
    conversation.leave();
    let questions = conversation.questions();
    let parked = &asker.hop.request.conversations.parked;
    match parked.put(name, conversation, asker.hop.place(), right::ended(asker.hop)) {
        Ok(()) => {
            let questions = questions
                .iter()
                .map(|(key, kind, params)| (key.as_str(), *kind, params.as_str()));
            asker.ask(questions, Continued::Parked(name))
        }
        Err(mut conversation) => {
            tracing::warn!(most = defaults::PARKED_MAX, "too many calls wait for their clients");
            conversation.refuse_all();
            Box::pin(go_on(conversation, asker)).await
        }
    }
}
