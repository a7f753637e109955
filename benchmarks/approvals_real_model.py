"""A real model asks for three payments; one is approved, one rejected, one edited, and the server is killed meanwhile.

    python benchmarks/approvals_real_model.py --url http://127.0.0.1:18080/v1 [--model NAME]

URL is an OpenAI-compatible server. `flexchat serve` answers one message with that model; every call of its tool needs
an approval. When the turn is suspended, the server gets kill -9, is started again, and gets the replies. Exit status 1
if anything but the approved payment and the edited one was made, if one was made twice, or if the answer does not fit.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from effects_real_model import BANK, CONFIG, asked, free_port, serve, until

CONVERSATION = "b" * 32
MESSAGE = "Transfer 25 euros to Ann, 40 euros to Bob and 60 euros to Cid, please. Make all three calls at once."
APPROVALS = '\n[[approvals]]\ntools = ["transfer"]\n'


def open_questions(port):
    return asked(port, "/api/questions").get("questions", [])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--model", default="real-model")
    parser.add_argument("--post", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.post:
        return asked(args.url, "/chat/api", {"prompt": args.post, "conversation": CONVERSATION}) and 0
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        (folder / "bank.py").write_text(BANK.replace("SECONDS", "0"))
        (folder / "flexchat.toml").write_text(CONFIG.format(url=args.url, model=args.model) + APPROVALS)
        server = serve(folder, port)
        post = [sys.executable, __file__, "--url", str(port), "--post", MESSAGE]
        curl = subprocess.Popen(post, stdout=subprocess.DEVNULL)
        until(lambda: asked(port, "/api/turns?state=suspended")["turns"], "the turn is not suspended", folder)
        server.send_signal(signal.SIGKILL)
        server.wait()
        curl.wait()

        server = serve(folder, port)
        amounts = {each["question"]["details"]["arguments"]["amount"]: each["id"] for each in open_questions(port)}
        print(f"the model asks for {sorted(amounts)}; killed while the turn was suspended, and started again")
        if sorted(amounts) != [25, 40, 60]:
            return 1
        replies = {
            25: {"action": "accept"},
            40: {"action": "decline", "reason": "Bob has been paid already"},
            60: {"action": "accept", "content": {"arguments": {"amount": 30, "to": "Cid"}}},
        }
        for amount, reply in replies.items():
            if asked(port, f"/api/questions/{amounts[amount]}/reply", reply) is None:
                sys.exit(f"the reply to the payment of {amount} was refused:\n{(folder / 'log').read_text()}")
        again = until(lambda: open_questions(port), "the edited call is not shown again", folder)
        print(f"shown again: {again[0]['question']['details']['arguments']}")
        asked(port, f"/api/questions/{again[0]['id']}/reply", {"action": "accept"})
        until(lambda: asked(port, "/api/turns?state=done")["turns"], "the turn does not go on", folder)
        conversation = asked(port, f"/api/conversations/{CONVERSATION}")
        results = [each["content"] for each in conversation["turns"][-1]["messages"] if each["role"] == "tool"]
        print("the model reads:", *results, sep="\n  ")
        answer = json.dumps(conversation["turns"][-1]["messages"][-1], ensure_ascii=False)
        server.terminate()
        server.wait()
        paid = [json.loads(line) for line in (folder / "paid.jsonl").read_text().splitlines()]
    print(f"paid: {[(each['to'], each['amount']) for each in paid]}\nthe answer: {answer}")
    made = sorted((each["amount"], each["to"]) for each in paid)
    is_reported = "Bob has been paid" in results[1] and "30" in results[2] and "Bob" in answer
    return 0 if made == [(25, "Ann"), (30, "Cid")] and is_reported else 1


if __name__ == "__main__":
    sys.exit(main())
