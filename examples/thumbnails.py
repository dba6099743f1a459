"""Thumbnails by a pool of processes: work that keeps a core busy does not keep the worker from its claims.

    cd examples
    python thumbnails.py ~/Pictures/*.jpg
    bucketq work thumbnails:app --concurrency 4

It needs Pillow.
"""

import asyncio
import sys
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from bucketq import App
from bucketq.retry import Decision, Failure, GiveUp, Retry

app = App((Path.cwd() / "queue.json").as_uri())


def unless_broken(failure: Failure) -> Decision:
    """A disk may have room again in a minute; a file that is no image never becomes one."""
    hopeless = isinstance(failure.exception, UnidentifiedImageError | FileNotFoundError)
    return GiveUp() if hopeless else Retry(60)


@app.job(runs_in="process", retry=unless_broken, timeout=60)
def make_thumbnail(image: str, width: int = 200) -> str:
    """One of `--concurrency` processes does it; should that crash or hang, only this job has failed."""
    thumbnail = Path("thumbnails") / f"{Path(image).stem}.{width}.jpg"
    thumbnail.parent.mkdir(exist_ok=True)
    with Image.open(image) as picture:
        picture.thumbnail((width, width))
        # Saved beside it and renamed: it may run twice, and nobody sees half of it.
        unfinished = thumbnail.with_suffix(".tmp")
        picture.convert("RGB").save(unfinished, "JPEG")
    unfinished.replace(thumbnail)
    return str(thumbnail)


async def main(images: list[str]) -> None:
    async with app:
        await make_thumbnail.enqueue_many({"image": image} for image in images)
        print(f"enqueued {len(images)} images")


if __name__ == "__main__":
    asyncio.run(main([str(Path(image).resolve()) for image in sys.argv[1:]]))
