// What was sent on event streams, so that a client that lost one can have the rest.

/** An event store, as the SDK calls it, in memory. */
export class History {
  #streams = new Map();

  async storeEvent(stream, message) {
    const messages = this.#streams.get(stream) ?? [];
    this.#streams.set(stream, messages);
    messages.push(message);
    return `${stream}/${messages.length}`;
  }

  async replayEventsAfter(lastId, { send }) {
    const end = lastId.lastIndexOf('/');
    const stream = lastId.slice(0, end);
    const messages = this.#streams.get(stream) ?? [];
    for (let number = Number(lastId.slice(end + 1)); number < messages.length; number++) {
      // Events without a message only carry an id.
      if (messages[number]?.jsonrpc) await send(`${stream}/${number + 1}`, messages[number]);
    }
    return stream;
  }
}
