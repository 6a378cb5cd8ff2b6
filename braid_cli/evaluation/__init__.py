"""Evaluation on judged questions.

- ``configurations`` are compared by ``run``; ``recording`` keeps what the last stage is given; ``metrics`` scores
- ``confidence`` measures the calibration of answers' confidence; ``failures`` explains the worst questions
- ``show`` renders on a terminal, ``plots`` and ``document`` for the documentation
"""
