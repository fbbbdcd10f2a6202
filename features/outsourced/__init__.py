"""Search with two parties: a curator holds the candidates' rows, a modeller sees a noised image of them.

Source: Kharkovskii, Dai and Low (2020). The parties exchange files alone.

| file | party | holds |
|---|---|---|
| `box` | curator | the price of a table and of private answers |
| `geometry` | curator | the projection of the rows, and its noise |
| `utility` | curator | what distortion and regret to expect before publishing |
| `curator` | curator | publish a table once, and what the curator keeps of it |
| `answers` | curator | answer a query, each row once |
| `modeler` | modeller | GP-UCB on the published rows |
| `session` | modeller | one search, in a file |
| `messages` | both | the table, queries and answers as files |
| `flow` | both | the parties as two Prefect flows |
| `command` | both | `dpbo curate` and `dpbo model` |
"""

CURATE = (f"{__name__}.command:curate_app", "For the curator: publish a private table.")
MODEL = (f"{__name__}.command:model_app", "For the modeller: search a published table.")
