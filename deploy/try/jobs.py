"""The app that the workers of compose.yaml run."""

from bucketq import App

app = App("memory://")


@app.job
async def greet(name: str) -> str:
    return f"hello, {name}"
